"""Training: one loop for every task, and what it needs: schedule, optimizer, averages, checkpoints, log, report."""
