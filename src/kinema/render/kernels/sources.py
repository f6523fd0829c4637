"""Where light comes from: the sky, lamps, and surfaces that shine."""

from __future__ import annotations

from functools import cache

import warp as wp

from ..traits import Traits
from .bsdf import Aim, Energy, brightness, density, frame, scattered, shine_share, varnish_share
from .rays import place_of, searches, turn_of
from .records import DIRECTIONAL, NEARBY, SPOT, Lamps, Spot, World

AIMED = wp.constant(0.35)
"""How often directions from matt surfaces go to things of glass."""
AIMS = wp.constant(1)
"""Surfaces of a path from which they do: from later ones they would cost more time than they save."""


@wp.func
def sky_light(lamps: Lamps, d: wp.vec3) -> wp.vec3:
    result = wp.lerp(lamps.horizon, lamps.zenith, wp.sqrt(wp.max(d[2], 0.0)))
    if d[2] < 0.0:
        result = wp.lerp(lamps.horizon, lamps.ground, wp.min(1.0, -4.0 * d[2]))
    if lamps.panorama.shape[0] > 0:
        rows = lamps.panorama.shape[0]
        columns = lamps.panorama.shape[1]
        x = int((0.5 - wp.atan2(d[1], d[0]) / (2.0 * wp.pi)) * float(columns))
        y = int(wp.acos(wp.clamp(d[2], -1.0, 1.0)) / wp.pi * float(rows))
        result = lamps.panorama[wp.clamp(y, 0, rows - 1), wp.clamp(x, 0, columns - 1)]
    return result


@wp.func
def start_of(spot: Spot, d: wp.vec3) -> wp.vec3:
    """Where a ray starts that leaves a surface: a little to the side that it goes to."""
    side = wp.where(wp.dot(spot.normal, d) >= 0.0, 1.0, -1.0)
    return spot.point + side * NEARBY * (1.0 + wp.length(spot.point)) * spot.normal


@wp.func
def towards_glass(w: World, lamps: Lamps, env: int, spot: Spot, basis: wp.mat33, r: float) -> Aim:
    """The cone around one of the things of glass, which r chooses: a lamp may shine through it.

    None where it fills so much of what is seen that the cosine finds it as well, or next to nothing.
    """
    aim = Aim()
    n = lamps.glass_body.shape[0]
    if n > 0:
        ball = w.ball[env, lamps.glass_body[wp.min(int(r * float(n)), n - 1)]]
        offset = wp.vec3(ball[0], ball[1], ball[2]) - spot.point
        sine2 = ball[3] * ball[3] / wp.max(wp.dot(offset, offset), 1.0e-12)
        if sine2 > 1.0e-4 and sine2 < 0.75:
            aim.axis = wp.transpose(basis) * wp.normalize(offset)
            aim.opening = sine2 / (1.0 + wp.sqrt(1.0 - sine2))
            if aim.axis[2] > -wp.sqrt(sine2):  # not all of it is behind the surface
                aim.share = AIMED
    return aim


@wp.struct
class Sent:
    """Light from a point of a lamp or of a surface that shines, on its way to where it is seen."""

    towards: wp.vec3
    start: wp.vec3
    reach: float
    """What lies nearer than this is in its way."""
    light: wp.vec3
    """What of it goes on to the viewer; zero for nothing."""
    shadow: int
    """Whether anything can be in its way."""


@wp.func
def from_lamp(lamps: Lamps, e: Energy, env: int, spot: Spot, basis: wp.mat33, o: wp.vec3, r: wp.vec3) -> Sent:
    """Light from one of the lamps, which r chooses, and a point of it."""
    n_lamps = lamps.kind.shape[0]
    k = wp.min(int(r[0] * float(n_lamps)), n_lamps - 1)
    # a point of a disc: of the bulb, or of what is seen of something far away
    radius = lamps.radius[k] * wp.sqrt(r[1])
    angle = 2.0 * wp.pi * r[2]
    disc = wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), 0.0)
    reach = float(1.0e30)
    share = float(1.0)
    d = -lamps.direction[k, env]
    if lamps.kind[k] == DIRECTIONAL:
        d = wp.normalize(d + frame(d) * disc)
    else:
        offset = lamps.position[k, env] - spot.point
        d = wp.normalize(offset)
        offset = offset + frame(d) * disc
        reach = wp.length(offset)
        d = offset / wp.max(reach, 1.0e-9)
        fall = lamps.falloff[k]
        share = 1.0 / wp.max(fall[0] + reach * (fall[1] + reach * fall[2]), 1.0e-6)
        if lamps.kind[k] == SPOT:
            cosine = -wp.dot(d, lamps.direction[k, env])
            share = wp.where(cosine < lamps.cone[k][0], 0.0, share * wp.pow(wp.max(cosine, 1.0e-6), lamps.cone[k][1]))
    i = wp.transpose(basis) * d
    sent = Sent()
    if i[2] > 0.0 and share > 0.0 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        light = wp.pi * share * float(n_lamps) * lamps.color[env % lamps.color.shape[0], k]
        sent.light = wp.cw_mul(light, scattered(spot, e, o, i))
        sent.towards = d
        sent.start = start_of(spot, d)
        sent.reach = reach
        sent.shadow = lamps.shadow[k]
    return sent


@wp.func
def from_glow(
    w: World,
    lamps: Lamps,
    e: Energy,
    env: int,
    time: float,
    spot: Spot,
    basis: wp.mat33,
    aim: Aim,
    o: wp.vec3,
    r: wp.vec3,
) -> Sent:
    """Light from a point of a surface that shines, weighed against meeting it by chance."""
    k = wp.lower_bound(lamps.glow_share, r[0])
    k = wp.min(k, lamps.glow_share.shape[0] - 1)
    b = lamps.glow_body[k]
    s = wp.sqrt(r[1])
    local = lamps.glow_corner[k] + (1.0 - s) * lamps.glow_first[k] + (r[2] * s) * lamps.glow_second[k]
    q = turn_of(w, b, env, time)
    point = place_of(w, b, env, time) + wp.quat_rotate(q, local)
    normal = wp.normalize(wp.quat_rotate(q, wp.cross(lamps.glow_first[k], lamps.glow_second[k])))
    offset = point - spot.point
    distance = wp.length(offset)
    d = offset / wp.max(distance, 1.0e-9)
    facing = -wp.dot(normal, d)  # it shines to its outer side only
    into = wp.transpose(basis) * d
    sent = Sent()
    if into[2] > 0.0 and facing > 1.0e-6 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        emitted = lamps.glow_emission[k]
        pdf = brightness(emitted) / lamps.glow_total * distance * distance / facing
        other = density(spot, shine_share(spot, e, o[2]), varnish_share(spot, e, o[2]), aim, o, into)
        weight = pdf * pdf / (pdf * pdf + other * other)
        sent.light = wp.cw_mul(emitted, scattered(spot, e, o, into)) * (weight / pdf)
        sent.towards = d
        sent.start = start_of(spot, d)
        sent.reach = wp.length(point - sent.start) * (1.0 - 1.0e-3)
        sent.shadow = 1
    return sent


@wp.func
def met_glow(lamps: Lamps, spot: Spot, d: wp.vec3, t: float, instance: int, pdf: float) -> wp.vec3:
    """Light of a surface that a path came upon, weighed against having been sampled there."""
    weight = float(1.0)
    facing = -wp.dot(spot.normal, d)
    if facing <= 0.0:
        weight = 0.0
    elif pdf > 0.0 and lamps.glows[instance] == 1:
        sampled = brightness(spot.emission) / lamps.glow_total * t * t / wp.max(facing, 1.0e-6)
        weight = pdf * pdf / (pdf * pdf + sampled * sampled)
    return weight * spot.emission


@cache
def lighting(traits: Traits) -> wp.Function:
    """The function that gathers light straight from what shines."""
    _, is_blocked = searches(traits)

    @wp.func
    def direct_light(
        w: World,
        lamps: Lamps,
        e: Energy,
        env: int,
        time: float,
        spot: Spot,
        basis: wp.mat33,
        aim: Aim,
        o: wp.vec3,
        r_lamp: wp.vec3,
        r_glow: wp.vec3,
    ) -> wp.vec3:
        result = wp.vec3(0.0, 0.0, 0.0)
        source = int(0)
        while source < 2:  # one place in the code from which rays are sent to either
            sent = Sent()
            if source == 0 and lamps.kind.shape[0] > 0:
                sent = from_lamp(lamps, e, env, spot, basis, o, r_lamp)
            elif source == 1 and lamps.glow_total > 0.0:  # noqa: SIM102  # the other is known when it is compiled
                if wp.static(traits.glow):
                    sent = from_glow(w, lamps, e, env, time, spot, basis, aim, o, r_glow)
            if wp.max(sent.light) > 0.0:
                hidden = bool(False)
                if sent.shadow == 1:
                    hidden = is_blocked(w, env, time, sent.start, sent.towards, sent.reach)
                if not hidden:
                    result += sent.light
            source += 1
        return result

    return direct_light
