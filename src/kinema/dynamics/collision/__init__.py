"""Collision detection: broad phase, narrow phase and contact buffers.

The narrow phase has analytic contact functions of primitive pairs, GJK and EPA for general convex geoms, and sampled
contacts of height fields and signed distance fields.
"""
