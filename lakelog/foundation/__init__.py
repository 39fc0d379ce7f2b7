"""What the clients and the rooms have in common. It knows neither of them."""
