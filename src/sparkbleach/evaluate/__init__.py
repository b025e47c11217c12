"""The evaluation: streams whose truth is known, dirt, measures, experiments and their report."""
