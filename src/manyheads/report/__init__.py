"""report.html: what a run looks like, on one page that opens anywhere."""
