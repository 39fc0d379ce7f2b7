"""Consumer groups over HTTP: v2's consumer instances, and lakelog's own routes for groups as a whole.

It knows paths, bodies and codes. It must not know how a group decides.
"""
