"""What proves the library: the experiments of the papers, benchmarks beside peers, training for both."""
