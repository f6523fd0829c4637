"""The C text that emitted programs start with: their number type and the functions on it.

Sine and cosine are our own: they work on SIMD vectors without a branch, and give the same bits on every width. The
angle is brought into [-pi/4, pi/4] by subtracting k pi/2 in three parts, where the polynomials
of lowest greatest error are good to half a unit in the last place. The result is within 1.0e-7 (single, |x| < 1e4)
and 2.0e-16 (double, |x| < 1e6) of the true value, measured on dense samples and next to multiples of pi/2 (9.1e-8 and
1.91e-16): see `tests/trace/test_emitted_functions.py`.
"""

from __future__ import annotations

PRELUDE = """
#if defined(__CUDA_ARCH__)
#define KN_FMA(a, b, c) {fma}(a, b, c)
#elif defined(__FMA__) || defined(__aarch64__)
#define KN_FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define KN_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define KN(x) ((kn)({s})(x))
#if defined(__CUDA_ARCH__)
#define KN_SQRT(x) {sqrt}(x)
#define KN_BITS(x) {bits}(x)
const auto kn_reciprocal = [](kn x) -> kn {{ {reciprocal} }};
#else
#define KN_SQRT(x) __builtin_elementwise_sqrt(x)
#define KN_BITS(x) __builtin_bit_cast(kni, x)
const auto kn_reciprocal = [](kn x) -> kn {{ return KN(1) / x; }};
#endif
const auto kn_sincos = [](kn x, kn& sine, kn& cosine) {{
  const kn shifted = KN_FMA(x, KN(0.63661977236758134308), KN({magic}));
  const kn k = shifted - KN({magic});
  kn r = KN_FMA(k, KN(-{half_pi_1}), x);
  r = KN_FMA(k, KN(-{half_pi_2}), r);
  r = KN_FMA(k, KN(-{half_pi_3}), r);
  const kn z = r * r;
{polynomials}
  const kni quadrant = KN_BITS(shifted);  // its lowest bits are those of k
  const auto odd = (quadrant & 1) != 0;
  const kn s = odd ? c0 : s0;
  const kn c = odd ? s0 : c0;
  sine = ((quadrant & 2) != 0) ? -s : s;
  cosine = (((quadrant + 1) & 2) != 0) ? -c : c;
}};
const auto kn_sin = [&](kn x) -> kn {{ kn s, c; kn_sincos(x, s, c); return s; }};
const auto kn_cos = [&](kn x) -> kn {{ kn s, c; kn_sincos(x, s, c); return c; }};
"""

_SINE = {
    "float": ("-1.6666654611e-1", "8.3321608736e-3", "-1.9515295891e-4"),
    "double": (
        "-1.66666666666666324348e-01",
        "8.33333333332248946124e-03",
        "-1.98412698298579493134e-04",
        "2.75573137070700676789e-06",
        "-2.50507602534068634195e-08",
        "1.58969099521155010221e-10",
    ),
}
_COSINE = {
    "float": ("4.166664568298827e-2", "-1.388731625493765e-3", "2.443315711809948e-5"),
    "double": (
        "4.16666666666666019037e-02",
        "-1.38888888888741095749e-03",
        "2.48015872894767294178e-05",
        "-2.75573143513906633035e-07",
        "2.08757232129817482790e-09",
        "-1.13596475577881948265e-11",
    ),
}
_HALF_PI = {
    # the first parts end in zeros: k times them is exact
    "float": ("1.5703125", "4.837512969970703125e-4", "7.549789948768648e-8"),
    "double": ("1.57079632673412561417e+00", "6.07710050630396597660e-11", "2.02226624879595063154e-21"),
}
_MAGIC = {"float": "12582912.0", "double": "6755399441055744.0"}
"""1.5 * 2^23 and 1.5 * 2^52: adding it and taking it away again rounds to the nearest integer."""
_RECIPROCAL = {
    # the processor's estimate and one step of Newton's: exact but for the last bit, without the branch of a division
    "float": 'float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return fmaf(r, fmaf(-x, r, 1.0f), r);',
    "double": "return 1.0 / x;",
}


def prelude(scalar: str, lanes: int) -> str:
    """The types `kn` (a number of each environment) and `kni`, and the functions on them."""
    integer = "int" if scalar == "float" else "long long"
    if lanes == 1:
        types = f"typedef {scalar} kn; typedef {integer} kni;"
    else:
        size = 4 if scalar == "float" else 8
        types = (
            f"typedef {scalar} kn __attribute__((ext_vector_type({lanes}), aligned({size})));\n"
            f"typedef {integer} kni __attribute__((ext_vector_type({lanes})));"
        )
    one, two, three = _HALF_PI[scalar]
    text = PRELUDE.format(
        s=scalar,
        fma="fmaf" if scalar == "float" else "fma",
        sqrt="sqrtf" if scalar == "float" else "sqrt",
        magic=_MAGIC[scalar],
        half_pi_1=one,
        half_pi_2=two,
        half_pi_3=three,
        polynomials=_polynomials(scalar),
        bits="__float_as_int" if scalar == "float" else "__double_as_longlong",
        reciprocal=_RECIPROCAL[scalar],
    )
    return types + text


def _polynomials(scalar: str) -> str:
    """`s0` and `c0`: sine and cosine of r, from z = r r, by Horner's rule."""
    return "\n".join(
        [
            f"  const kn s0 = KN_FMA(r * z, {_horner(scalar, _SINE[scalar])}, r);",
            f"  const kn c0 = KN_FMA(z * z, {_horner(scalar, _COSINE[scalar])}, KN_FMA(z, KN(-0.5), KN(1)));",
        ]
    )


def _horner(scalar: str, coefficients: tuple[str, ...]) -> str:
    text = f"KN({coefficients[-1]})"
    for coefficient in reversed(coefficients[:-1]):
        text = f"KN_FMA(z, {text}, KN({coefficient}))"
    return text
