"""What only SLALOM needs: its queries, its fit, its trust."""
