"""Rational coefficients of templates/functions.def: the scaled tails of the normal distribution and of erfc.

Fits f(a) = P(a) / (c a P(a) + R(a)), c = 1 / lim a f(a), so that for large a a rounding error of P cancels. Prints f32
coefficients and the largest relative error. erf's are all times SCALE: the ratio stays, and SCALE makes the rounding errors
of the f32 evaluation small, by trial. Needs mpmath.

The fit is linear once multiplied out; reweighting (Lawson) makes the largest relative error smallest. Coefficients are
rounded to f32 one after the other, the rest fitted again each time."""
import mpmath as mp

mp.mp.dps = 40
POINTS = 100
SCALE = mp.mpf(91) / 60


def f32(x):
    mantissa, exponent = mp.frexp(mp.mpf(x))
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, 24)), exponent - 24)


def value(p, r, c, a):
    top = mp.polyval(p[::-1], a)
    return top / (c * a * top + mp.polyval(r[::-1], a))


def fit(f, c, low, high, degrees, known, rounds):
    """known: {(0, j): value of p[j], (1, j): value of r[j]}. Returns p and r."""
    points = [low + (high - low) * ((1 - mp.cos(mp.pi * (i + mp.mpf(1) / 2) / POINTS)) / 2) ** 1.5 for i in range(POINTS)]
    exact = [f(a) for a in points]
    free = [(k, j) for k in (0, 1) for j in range(degrees[k] + 1) if (k, j) not in known]
    weights = [mp.mpf(1)] * POINTS
    bottom = [1 / v for v in exact]
    best = None
    for _ in range(rounds):
        matrix, right = mp.matrix(POINTS, len(free)), mp.matrix(POINTS, 1)
        for i, a in enumerate(points):
            scale = mp.sqrt(weights[i]) / (exact[i] * bottom[i])
            term = lambda k, j: a**j * (1 - exact[i] * c * a if k == 0 else -exact[i])
            for column, (k, j) in enumerate(free):
                matrix[i, column] = scale * term(k, j)
            right[i] = -scale * sum(v * term(k, j) for (k, j), v in known.items())
        solution = mp.lu_solve(matrix.T * matrix, matrix.T * right)
        all_values = dict(known)
        all_values.update({free[i]: solution[i] for i in range(len(free))})
        p = [all_values[0, j] for j in range(degrees[0] + 1)]
        r = [all_values[1, j] for j in range(degrees[1] + 1)]
        bottom = [c * a * mp.polyval(p[::-1], a) + mp.polyval(r[::-1], a) for a in points]
        errors = [abs(value(p, r, c, a) / v - 1) for a, v in zip(points, exact)]
        if best is None or max(errors) < best[0]:
            best = (max(errors), p, r)
        weights = [w * (e / max(errors) + mp.mpf("1e-3")) for w, e in zip(weights, errors)]
        total = sum(weights)
        weights = [w * POINTS / total for w in weights]
    return best[1], best[2]


def coefficients(name, f, c, low, high, degrees, order, known, scale=1):
    """Rounds one after the other in this order; `known` are given. All are times `scale` in the end."""
    c, low, high = f32(c), mp.mpf(low), mp.mpf(high)
    p, r = fit(f, c, low, high, degrees, known, 18)
    for k, j in order:
        known[k, j] = f32((p, r)[k][j])
        if len(known) < sum(degrees) + 2:
            p, r = fit(f, c, low, high, degrees, known, 10)
    p = [f32(known[0, j] * scale) for j in range(degrees[0] + 1)]
    r = [f32(known[1, j] * scale) for j in range(degrees[1] + 1)]
    if scale != 1:
        r[0] = p[0] / known[0, 0] * known[1, 0]  # f(0) stays exact
    points = (low + (high - low) * mp.mpf(i * i) / 160000 for i in range(401))
    error = max(abs(value(p, r, c, a) / f(a) - 1) for a in points)
    print(name, "on [%s, %s], largest relative error %s" % (mp.nstr(low, 4), mp.nstr(high, 4), mp.nstr(error, 3)))
    for letter, values in (("c", [c]), ("p", p), ("r", r)):
        for j, v in enumerate(values):
            print("  %s%d" % (letter, j), mp.nstr(v, 9))


def slope45():
    """exp2_slope's coefficients times 2^45, which is exact."""
    print("exp2_slope45")
    for c in ("0.000152434310", "0.00133914780", "0.00961882900", "0.0555035844", "0.240226448", "0.693147182"):
        print("  " + mp.nstr(f32(c) * 2**45, 9))


if __name__ == "__main__":
    mills = lambda a: mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2
    scaled = lambda a: mp.exp(a * a) * mp.erfc(a)
    tail = [(1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4)]
    whole = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (0, 4)]
    POINTS = 80
    coefficients("gelu: e^(a^2/2) Phi(-a)", mills, mp.sqrt(2 * mp.pi), "0.69", "14.4", (4, 3), tail,
                 {(0, 0): mp.mpf("0.5")})
    coefficients("erfc: e^(a^2) erfc(a)", scaled, mp.sqrt(mp.pi), "0.49", "10.1", (4, 3), tail, {(0, 0): mp.mpf(1)})
    POINTS = 100
    coefficients("erf: e^(a^2) erfc(a)", scaled, mp.sqrt(mp.pi), 0, "10.1", (4, 4), whole,
                 {(0, 0): mp.mpf(1), (1, 0): mp.mpf(1)}, SCALE)
    slope45()
