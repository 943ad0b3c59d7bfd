from manyheads.training.run import Run


def write_report(run: Run) -> None:
    run.report.write_text("")
