"""What several experiments use: data, models, figures, and how a run is kept and reported."""
