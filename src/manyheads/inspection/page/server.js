// The model of a served page: it sends to the server of the page what anywidget's model would send to its kernel.
// Only the served page includes this file; a single file contains no code that could send requests.

const UNREACHABLE = { error: "the server does not answer: is it still running?" };

// `told`: what the page declares about the model, {example, tells}.
export function fromServer(told) {
  const held = { ...told };
  const listeners = new Map();
  const turns = new Map(); // by type: the AbortController of the pending question
  const tell = (name, ...what) => [...(listeners.get(name) || [])].forEach((act) => act(...what));

  // A newer question of the same type aborts an older one, whose answer is dropped.
  const turnOf = (type) => {
    if (turns.has(type)) turns.get(type).abort();
    turns.set(type, new AbortController());
    return turns.get(type).signal;
  };
  const ask = async (type, path, question, read, about = {}) => {
    try {
      const answer = await fetch(path, asRequest(question, type === "plane" ? undefined : turnOf(type)));
      if (answer.ok) read(await (type === "plane" ? answer.arrayBuffer() : answer.json()));
      else tell("msg:custom", { type: "refused", ...about, ...(await answer.json()) }, []);
    } catch (error) {
      if (error.name !== "AbortError") tell("msg:custom", { type: "refused", ...about, ...UNREACHABLE }, []);
    }
  };
  const acts = {
    inspect: (question) => ask("inspect", "/api/inspect", question, (header) => {
      held.header = header;
      tell("change:header");
    }),
    attribution: ({ number, method }) => ask("attribution", `/api/attribution/${number}`, { method }, (found) => {
      tell("msg:custom", { type: "attribution", number, found }, []);
    }),
    importance: ({ number, instead }) => ask("importance", `/api/importance/${number}`, { instead }, (heads) => {
      tell("msg:custom", { type: "importance", number, instead, heads }, []);
    }),
    // Planes have the same names in all answers: the number identifies the answer.
    plane: ({ name, number }) => ask("plane", `/api/planes/${number}/${encodeURI(name)}`, null, (bytes) => {
      tell("msg:custom", { type: "plane", name, number }, [bytes]);
    }, { plane: name, number }),
  };

  return {
    get: (key) => held[key],
    on: (name, act) => listeners.set(name, [...(listeners.get(name) || []), act]),
    off: (name, act) => listeners.set(name, (listeners.get(name) || []).filter((one) => one !== act)),
    send: ({ type, ...question }) => acts[type](question),
  };
}

function asRequest(question, signal) {
  if (!question) return { signal };
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal };
}
