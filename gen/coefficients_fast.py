"""Coefficients of templates/fast.def: every set, fitted to the error of the activation that it serves.

Prints f32 coefficients and, for each set, the largest error in units of 1e-6 max(1, |x|), arithmetic exact: what f32
rounding adds was measured over all floats (docs/fast.md). Needs numpy and scipy; its output is coefficients_fast.txt.

The shapes are not linear in their coefficients. A weighted least squares fit starts; then the largest error is made smaller
by linear programs on the derivatives within a trusted distance. Coefficients are rounded to f32 one after the other, the
rest fitted again each time. A set that is clamped at the end of its range has its limit there as a point of the fit."""
import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr

POINTS = 110


def chebyshev(low, high):
    return low + (high - low) * (1 - np.cos(np.pi * np.arange(POINTS) / (POINTS - 1))) / 2


def horner(coefficients, x):
    value = coefficients[0] * np.ones_like(x)
    for c in coefficients[1:]:
        value = value * x + c
    return value


def jacobian(residual, theta):
    columns = []
    for i, value in enumerate(theta):
        step = 1e-30 * max(abs(value), 1e-5)
        moved = theta.astype(complex)
        moved[i] += 1j * step
        columns.append(residual(moved).imag / step)
    return np.array(columns).T


def minimax(residual, theta, known=()):
    free = [i for i in range(len(theta)) if i not in known]
    error, trust = residual(theta), 0.1
    best = np.max(np.abs(error))
    for _ in range(60):
        scale = np.maximum(np.abs(theta), 1e-4)[free]
        j = jacobian(residual, theta)[:, free] * scale
        ones = np.ones((len(error), 1))
        answer = linprog(np.append(np.zeros(len(free)), 1), np.block([[j, -ones], [-j, -ones]]),
                         np.concatenate([-error, error]), bounds=[(-trust, trust)] * len(free) + [(0, None)],
                         method="highs")
        if answer.status != 0:
            trust *= 0.3
            continue
        moved = theta.copy()
        moved[free] += answer.x[:-1] * scale
        new = residual(moved)
        largest = np.max(np.abs(new))
        if not largest < best:
            trust *= 0.25
            if trust < 1e-10:
                break
            continue
        gain, relative = (best - largest) / max(best - answer.x[-1], 1e-300), (best - largest) / best
        theta, error, best = moved, new, largest
        trust = min(trust * 2, 1) if gain > 0.7 else trust
        if relative < 1e-5 and gain > 0.2:
            break
    return theta


def coefficients(name, residual, theta, order, names):
    known = []
    theta = minimax(residual, theta)
    for i in order:
        theta[i] = float(np.float32(theta[i]))
        known.append(i)
        if len(known) < len(theta):
            theta = minimax(residual, theta, known)
    print("%s: %.3f" % (name, np.max(np.abs(residual(theta)))))
    for label, value in zip(names, theta):
        print("  %-3s %.9g" % (label, value))
    return theta


def fma(a, b, c):
    return np.float32(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


def clamp(f32_value, middle):
    """The f32 nearest to `middle` where the activation as f32 evaluates it is 1 to the bit."""
    low = high = np.float32(middle)
    while True:
        for c in (low, high):
            if f32_value(c) == 1:
                print("  at  %.9g" % c)
                return
        low, high = np.nextafter(low, np.float32(0)), np.nextafter(high, np.float32(99))


def powers(name, degree, n, x, target, weigh, slope, last):
    """target = t^2, t = P squared and b0 added, squared and b1 added, and so on, n times; weigh(t^2) is the error, slope
    its derivative. At x = last t^2 is to be lost beside 1."""
    root = target ** 0.5 ** (n + 1)
    weight = np.abs(slope) * 2 ** (n + 1) * target / root + 1e-4
    start = np.linalg.lstsq(np.vander(x, degree + 1) * weight[:, None], root * weight, rcond=None)[0]

    def t(theta, x):
        value = horner(theta[:degree + 1], x)
        for b in theta[degree + 1:]:
            value = value * value + b
        return value

    def residual(theta):
        end = t(theta, np.array([last])) * (0.2 / 1e-4)
        return np.concatenate([weigh(t(theta, x) ** 2), end])

    coefficients(name, residual, np.concatenate([start, np.zeros(n)]),
                 list(range(degree + 1))[::-1] + list(range(degree + 1, degree + 1 + n)),
                 ["a%d" % i for i in range(degree + 1)][::-1] + ["b%d" % i for i in range(n)])


def odd_ratio(name, f, high, degrees):
    """f(c) = c P(c^2) / Q(c^2), Q monic; f(high) = 1."""
    c = chebyshev(-high, high)[POINTS // 2:]
    z, y, weight = c * c, f(c), np.full(len(c), 1e6)
    y[-1], weight[-1] = 1, 2e7
    theta = ratio_start(z, y / c, c, degrees, high * high)
    n = degrees[0] + 1
    residual = lambda theta: (c * horner(theta[:n], z) / horner(np.append(1, theta[n:]), z) - y) * weight
    theta = coefficients(name, residual, theta, list(range(n))[::-1] + list(range(n, len(theta)))[::-1],
                 ["p%d" % i for i in range(n)][::-1] + ["q%d" % i for i in range(degrees[1])][::-1]).astype(np.float32)

    def f32_value(c):
        p, q = theta[0], c * c + theta[n]
        for a in theta[1:n]:
            p = fma(p, c * c, a)
        for a in theta[n + 1:]:
            q = fma(q, c * c, a)
        return c * p / q

    clamp(f32_value, high)


def ratio_start(x, value, weight, degrees, scale):
    """P / Q by repeated linear fits, Q monic, highest power first."""
    s, bottom = x / scale, np.ones_like(x)
    n = degrees[0] + 1
    for _ in range(20):
        matrix = np.hstack([np.vander(s, n), -value[:, None] * np.vander(s, degrees[1] + 1)[:, :-1]])
        answer = np.linalg.lstsq(matrix * (weight / bottom)[:, None], value * weight / bottom, rcond=None)[0]
        bottom = np.abs(horner(np.append(answer[n:], 1), s))
    p = answer[:n] / scale ** np.arange(degrees[0], -1, -1.0)
    q = np.append(answer[n:], 1) / scale ** np.arange(degrees[1], -1, -1.0)
    return np.concatenate([p, q[1:]]) / q[0]


def saturating(name, f, high):
    """f(c) = t (A - t^2), t = c P(c^2), P of degree 6; x (1 + f) / 2 is the activation. f(high) = 1, where the slope of
    t (A - t^2) vanishes and with it the errors of t."""
    c = chebyshev(-high, high)[POINTS // 2:]
    z, y = c * c, f(c)
    weight = 5e5 * np.abs(c) / np.maximum(1, np.abs(c))
    y[-1], weight[-1] = 1, weight[-1] * 20
    k = 0.5 ** (1 / 3)
    start = np.linalg.lstsq(np.vander(z, 7) * c[:, None], 2 * np.sin(np.arcsin(np.minimum(y, 1)) / 3), rcond=None)[0]

    def residual(theta):
        t = c * horner(theta[:7], z)
        return (t * (theta[7] - t * t) - y) * weight

    theta = coefficients(name, residual, np.append(start * k, 1.5 / k), [7, 6, 5, 4, 3, 2, 1, 0],
                         ["p%d" % i for i in range(7)][::-1] + ["A"]).astype(np.float32)

    def f32_value(c):
        p = theta[0]
        for a in theta[1:7]:
            p = fma(p, c * c, a)
        return c * p * fma(-c * p, c * p, theta[7])

    clamp(f32_value, high)


def softplus(high):
    """log(1 + e^-a) = max(P(a) / Q(a), 0)^4, degrees 5 and 2, Q monic; P(high) is below 0, so that the result is 0."""
    a = chebyshev(0, high)
    y, weight = np.log1p(np.exp(-a)), 1e6 / np.maximum(1, a)
    root = y**0.25
    theta = ratio_start(a, root, weight * y / root * 4 + 1e-3, (5, 2), high)

    def residual(theta):
        t = horner(theta[:6], a) / horner(np.append(1, theta[6:]), a)
        return np.append((t**4 - y) * weight, (t[-1] + 0.01) * 20)

    coefficients("softplus", residual, theta, [5, 4, 3, 2, 1, 0, 7, 6],
                 ["p5", "p4", "p3", "p2", "p1", "p0", "q1", "q0"])


if __name__ == "__main__":
    x = chebyshev(-15.5, 17.4)
    e = np.exp(-x)
    s = 1 / (1 + e)
    powers("e^-x for sigmoid, silu, swish", 4, 3, x, e, lambda y: (1 / (1 + y) - s) * 1e6, 1e6 * s * s, 17.4)

    x = chebyshev(-17, 0)
    e1, w1 = np.exp(x), 1.7580993e6 / np.maximum(1, np.abs(x))
    powers("e^x for elu", 5, 2, x, e1, lambda y: (y - e1) * w1, w1, -17.0)
    powers("e^x for selu", 7, 1, x, e1, lambda y: (y - e1) * w1, w1, -17.0)

    x2 = chebyshev(-16.5, 9.5)
    r = 0.5**0.5
    e2, w2 = np.exp(x2) * r, 1e6 * x2 / np.maximum(1, np.abs(x2))
    d2 = (e2 + r) ** 2 + 0.5
    powers("e^x / sqrt(2) for mish", 4, 3, x2, e2, lambda y: (1 / d2 - 1 / ((y + r) ** 2 + 0.5)) * w2,
           w2 * 2 * (e2 + r) / d2**2, -16.5)

    odd_ratio("tanh", np.tanh, 7.9, (3, 4))
    saturating("gelu", lambda c: 1 - 2 * ndtr(-c), 4.9)
    saturating("gelu_tanh", lambda c: np.tanh((2 / np.pi) ** 0.5 * (c + 0.044715 * c**3)), 4.6)
    softplus(15.0)
