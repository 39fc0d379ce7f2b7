"""The parts that clients and rooms share: errors, settings, names, partitioners, Arrow messages. It knows neither."""
