"""One request and one answer, whatever the route: dispatch, admission, bodies, negotiation, errors."""
