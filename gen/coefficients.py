"""Coefficients of templates/functions.def: fits them, reads what stands there, and proves how far that is off.

    python3 gen/coefficients.py > gen/coefficients.txt          needs mpmath and sollya; a minute or two

Polynomials are fitted by coefficients.sollya, the two sides of a quotient here. A row of the output is: coefficient, value
in functions.def, and where the fit gives another one, that and the distance in units of the last place. Sets whose last
digits are not the fit's stand in WHY; for any other a difference ends the run. The error of a set is that of the function
it makes, all arithmetic exact, for the coefficients as they stand in functions.def: a bound by sollya's supnorm over the
whole interval, no sample. tests/test_coefficients.c compares functions.def with the output.

The tails of erfc and of the normal distribution: f(a) = P(a) / (c a P(a) + R(a)), c = 1 / lim a f(a), so that for large a a
rounding error of P cancels. The fit is linear once multiplied out; reweighting (Lawson) makes the largest relative error
smallest. Coefficients are rounded to f32 one after the other, the rest fitted again each time."""
import pathlib
import re
import subprocess
import sys

import mpmath as mp

mp.mp.dps = 40
HERE = pathlib.Path(__file__).resolve().parent
ERF_SCALE = mp.mpf(91) / 60

WHY = {
    "exp2_slope45": "By search: random last digits near the fit's, tried on the floats where errors are large, for a small"
                    " largest error of silu, swish and gelu_tanh,\n  and for results of silu and gelu_tanh below 2^-126"
                    " within one smallest subnormal.",
}


class Polynomial:
    """`where`: function of functions.def and, if not its whole body, the `let` that holds the coefficients, highest first.
    `of`: a fit of coefficients.sollya; `powers`: which of its coefficients; `scale`(power): what they are times in
    functions.def; `less`: what is taken from the lowest. `made`: the function they make, P being the polynomial in `t`."""

    def __init__(self, where, title, of, powers, t, made, f, low, high, scale=lambda power: 1, less=0):
        self.where, self.title, self.of, self.powers, self.t = where, title, of, powers, t
        self.made, self.f, self.low, self.high, self.scale, self.less = made, f, low, high, scale, less
        self.labels = ["%s^%d" % ("t", i) for i in reversed(range(len(powers)))]

    def fit(self, fits):
        values = [fits[self.of][power] * self.scale(power) for power in self.powers]
        return values[:-1] + [values[-1] - self.less]

    def claim(self, values):
        p = horner(values, self.t)
        return self.made.replace("P", "(%s)" % p), self.f, self.low, self.high


class Quotient:
    """P / (c a P + R), P and R in `where`, both times `scale`. (0, j) is a coefficient of P, (1, j) one of R; `order`: which is
    rounded when; `known`: given ones."""

    def __init__(self, where, title, f, exact, c, low, high, degrees, order, known, points, rounds, scale=1):
        self.where, self.title, self.f, self.exact, self.c, self.low, self.high = where, title, f, exact, f32(c), low, high
        self.degrees, self.order, self.known = degrees, order, known
        self.points, self.rounds, self.scale = points, rounds, scale
        self.labels = ["%s%d" % (letter, j) for k, letter in ((0, "P"), (1, "R")) for j in reversed(range(degrees[k] + 1))]

    def fit(self, _):
        low, high, known = mp.mpf(self.low), mp.mpf(self.high), dict(self.known)
        p, r = lawson(self.exact, self.c, low, high, self.degrees, known, self.points, self.rounds)
        for k, j in self.order:
            known[k, j] = f32((p, r)[k][j])
            if len(known) < sum(self.degrees) + 2:
                p, r = lawson(self.exact, self.c, low, high, self.degrees, known, self.points, 10)
        p = [f32(known[0, j] * self.scale) for j in range(self.degrees[0] + 1)]
        r = [f32(known[1, j] * self.scale) for j in range(self.degrees[1] + 1)]
        if self.scale != 1:
            r[0] = p[0] / known[0, 0] * known[1, 0]  # f(0) stays exact
        return p[::-1] + r[::-1]

    def claim(self, values):
        p, r = horner(values[:self.degrees[0] + 1], "x"), horner(values[self.degrees[0] + 1:], "x")
        return p, "(%s) * (%s * x * (%s) + %s)" % (self.f, decimal(self.c), p, r), self.low, self.high


def f32(x):
    mantissa, exponent = mp.frexp(mp.mpf(x))
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, 24)), exponent - 24)


def decimal(value):
    return mp.nstr(value, 40)


def horner(values, t):
    text = decimal(values[0])
    for value in values[1:]:
        text = "(%s + %s * (%s))" % (decimal(value), t, text)
    return text


def lawson(f, c, low, high, degrees, known, count, rounds):
    """known: {(0, j): value of p[j], (1, j): value of r[j]}. Returns p and r."""
    points = [low + (high - low) * ((1 - mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count)) / 2) ** 1.5 for i in range(count)]
    exact = [f(a) for a in points]
    free = [(k, j) for k in (0, 1) for j in range(degrees[k] + 1) if (k, j) not in known]
    weights, bottom, best = [mp.mpf(1)] * count, [1 / v for v in exact], None
    for _ in range(rounds):
        matrix, right = mp.matrix(count, len(free)), mp.matrix(count, 1)
        for i, a in enumerate(points):
            scale = mp.sqrt(weights[i]) / (exact[i] * bottom[i])
            term = lambda k, j: a**j * (1 - exact[i] * c * a if k == 0 else -exact[i])
            for column, (k, j) in enumerate(free):
                matrix[i, column] = scale * term(k, j)
            right[i] = -scale * sum(v * term(k, j) for (k, j), v in known.items())
        solution = mp.lu_solve(matrix.T * matrix, matrix.T * right)
        values = dict(known)
        values.update({free[i]: solution[i] for i in range(len(free))})
        p = [values[0, j] for j in range(degrees[0] + 1)]
        r = [values[1, j] for j in range(degrees[1] + 1)]
        top = [mp.polyval(p[::-1], a) for a in points]
        bottom = [c * a * t + mp.polyval(r[::-1], a) for a, t in zip(points, top)]
        errors = [abs(t / b / v - 1) for t, b, v in zip(top, bottom, exact)]
        if best is None or max(errors) < best[0]:
            best = (max(errors), p, r)
        weights = [w * (e / max(errors) + mp.mpf("1e-3")) for w, e in zip(weights, errors)]
        total = sum(weights)
        weights = [w * count / total for w in weights]
    return best[1], best[2]


TAIL = [(1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4)]
WHOLE = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (0, 4)]
ERFCX, ERFCX_EXACT = "exp(x^2) * erfc(x)", lambda a: mp.exp(a * a) * mp.erfc(a)
MILLS, MILLS_EXACT = "exp(x^2 / 2) * erfc(x / sqrt(2)) / 2", lambda a: mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2

SETS = (
    Polynomial(["exp2_slope"], "2^f = 1 + f P(f), degree 6", "exp2_slope", range(6, 0, -1), "x", "1 + x * P", "2^x",
               "-0.5002", "0.5002"),
    Polynomial(["exp2_slope45"], "2^f = 1 + f P(f) / 2^45, degree 6", "exp2_slope", range(6, 0, -1), "x",
               "1 + x * 1b-45 * P", "2^x", "-0.5002", "0.5002", lambda power: 2**45),
    Polynomial(["expm1_fraction"], "e^r - 1 = r + r^2 P(r), degree 6", "expm1_fraction", range(5, 0, -1), "x",
               "x + x^2 * P", "expm1(x)", "-0.347", "0.347"),
    Polynomial(["log1p_fraction"], "log(1 + f) = f + f^2 P(f), degree 10", "log1p_fraction", range(9, 0, -1), "x",
               "x + x^2 * P", "log1p(x)", "-0.3334", "0.33334"),
    Polynomial(["tanh", "p"], "(e^(2 h) - 1) / 2 = h + h^2 P(h), degree 6: expm1_fraction's in 2 h", "expm1_fraction",
               range(5, 0, -1), "x", "x + x^2 * P", "expm1(2 * x) / 2", "-0.1735", "0.1735", lambda power: 2**power),
    Polynomial(["softplus", "q"], "log(1 + t) = t + t^2 P(t), degree 10", "softplus", range(9, 0, -1), "x",
               "x + x^2 * P", "log1p(x)", "0", "1"),
    Polynomial(["erf", "near"], "erf(x) = x + x P(x^2), degree 6 in x^2", "erf", range(6, -1, -1), "x^2", "x + x * P",
               "erf(x)", "0", "0.9", less=1),
    Quotient([["erfcx_numerator"], ["erfcx_denominator"]],
             "e^(a^2) erfc(a) = P(a) / (sqrt(pi) a P(a) + R(a)), degrees 4 and 4", ERFCX, ERFCX_EXACT, mp.sqrt(mp.pi),
             "0", "10.1", (4, 4), WHOLE, {(0, 0): mp.mpf(1), (1, 0): mp.mpf(1)}, 100, 25, ERF_SCALE),
    Polynomial(["erfc", "near"], "erfc(x) = 1 - x P(x^2), degree 4 in x^2", "erfc", range(9, 0, -2), "x^2", "1 - x * P",
               "erfc(x)", "-0.5", "0.5"),
    Quotient([["erfc", "p"], ["erfc", "u"]], "e^(a^2) erfc(a) = P(a) / (sqrt(pi) a P(a) + R(a)), degrees 4 and 3",
             ERFCX, ERFCX_EXACT, mp.sqrt(mp.pi), "0.49", "10.1", (4, 3), TAIL, {(0, 0): mp.mpf(1)}, 80, 18),
    Polynomial(["gelu", "near"], "x Phi(x) = x / 2 + x^2 P(x^2), degree 4 in x^2", "gelu", range(10, 0, -2), "x^2",
               "x / 2 + x^2 * P", "x * erfc(-x / sqrt(2)) / 2", "-0.7", "0.7"),
    Quotient([["gelu", "n"], ["gelu", "u"]], "e^(a^2/2) Phi(-a) = P(a) / (sqrt(2 pi) a P(a) + R(a)), degrees 4 and 3",
             MILLS, MILLS_EXACT, mp.sqrt(2 * mp.pi), "0.69", "14.4", (4, 3), TAIL, {(0, 0): mp.mpf("0.5")}, 80, 18),
)


def numbers(definitions, function, let=None):
    """The decimal numbers of a function's body or of one `let` of it, as f32, signs of their own included."""
    body = re.search(r"FFN_FUNCTION\(%s,.*?\n(.*?)\n(?:\n|FFN_|#)" % function, definitions, re.S).group(1)
    if let:
        body = re.search(r"let %s = (.*?);" % let, body, re.S).group(1)
    body = re.sub(r"0x[0-9a-f]+|\b[a-z]\w*", "_", " ".join(body.split()))
    texts = re.findall(r"(?:(?<=\()|(?<=, ))-?[\d.]+(?:e[+-]?\d+)?|[\d.]+(?:e[+-]?\d+)?", body)
    return [(f32(text), text) for text in texts]


def held(definitions, a_set):
    """The set's coefficients in functions.def."""
    if isinstance(a_set, Polynomial):
        return numbers(definitions, *a_set.where)[:len(a_set.labels)]
    p, r = (numbers(definitions, *where) for where in a_set.where)
    if len(a_set.where[1]) == 1:
        r = r[1:]  # c stands before R
    return p[:a_set.degrees[0] + 1] + r[:a_set.degrees[1] + 1]


def sollya(claims):
    program = (HERE / "coefficients.sollya").read_text() + claims + "quit;\n"
    run = subprocess.run(["sollya"], input=program, text=True, capture_output=True, check=True)
    return [line.split() for line in run.stdout.splitlines() if line]


def name_of(a_set):
    return " ".join(a_set.where if isinstance(a_set, Polynomial) else a_set.where[0])


def heading(a_set):
    where = [a_set.where] if isinstance(a_set, Polynomial) else a_set.where
    return ", ".join(w[0] for w in where if len(w) == 1 or w is where[0])


def shown(error):
    """Three digits, rounded up."""
    exponent = int(mp.floor(mp.log10(error)))
    return "%.2fe%d" % (float(mp.ceil(error / mp.mpf(10) ** (exponent - 2)) / 100), exponent)


def row(label, value, text, fit):
    line = "  %-4s %16s" % (label, text)
    if value == fit:
        return line
    return line + "   fit %16s, %+d" % (mp.nstr(fit, 9), mp.nint((value - fit) / mp.ldexp(1, mp.frexp(value)[1] - 24)))


def main():
    definitions = re.sub(r"/\*.*?\*/", "", (HERE.parent / "templates/functions.def").read_text(), flags=re.S)
    fits = {}
    for name, power, value in sollya(""):
        fits.setdefault(name, {})[int(power)] = mp.mpf(value)
    used = [held(definitions, s) for s in SETS]
    fitted = [s.fit(fits) for s in SETS]
    claims = ""
    for i, s in enumerate(SETS):
        values = [value for value, _ in used[i]]
        rows = [row(*each) for each in zip(s.labels, *zip(*used[i]), fitted[i])]
        if values != fitted[i] and name_of(s) not in WHY:
            sys.exit("%s: not what the fit gives\n%s" % (heading(s), "\n".join(rows)))
        for kind, which in (("used", values), ("fit", fitted[i]))[:1 + (values != fitted[i])]:
            claims += 'prove("%d %s", %s, %s, %s, %s);\n' % ((i, kind) + s.claim(which))
    errors = {tuple(words[1:3]): mp.mpf(words[3]) for words in sollya(claims) if words[0] == "proved"}
    texts = {False: [], True: []}
    for i, s in enumerate(SETS):
        differs = (str(i), "fit") in errors
        more = ", the fit's %s\n  %s" % (shown(errors[str(i), "fit"]), WHY[name_of(s)]) if differs else ""
        rows = [row(*each) for each in zip(s.labels, *zip(*used[i]), fitted[i])]
        texts[differs].append("%s: %s, on [%s, %s], largest relative error %s%s\n%s\n" %
                              (heading(s), s.title, s.low, s.high, shown(errors[str(i), "used"]), more, "\n".join(rows)))
    version = subprocess.run(["sollya", "--version"], capture_output=True, text=True).stdout.split()[3]
    print("Coefficients of templates/functions.def, by python3 gen/coefficients.py (sollya %s, mpmath %s).\n"
          "Errors are proved for exactly these values, arithmetic exact. t is the variable of P.\n\n"
          "==== As the fit gives them ====\n" % (version, mp.__version__))
    print("\n".join(texts[False]))
    print("==== Other last digits: value, fit, distance in units of the last place ====\n")
    print("\n".join(texts[True]), end="")


if __name__ == "__main__":
    main()
