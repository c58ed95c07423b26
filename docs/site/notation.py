"""Formulas of the texts as MathML: the notation of docs/glossary.md, and the few of LaTeX."""
import html
import re

from latex2mathml.converter import convert

GREEK = dict(alpha="α", beta="β", gamma="γ", delta="δ", eps="ε", theta="θ", mu="μ", phi="φ", Phi="Φ", sigma="σ", pi="π")
NAMES = set(GREEK) | set(
    "exp log sqrt tanh sin cos max min mean sum product var std softmax relu sigmoid softplus abs sign floor erf gelu silu mod lse lr "
    "rstd xhat pad scale mask".split())
SYMBOLS = {"<-": "←", "->": "→", "<=": "≤", ">=": "≥", "!=": "≠", "-": "−", "*": "∗", "...": "…", "..": "…", ".": "·",
           "<": "&lt;", ">": "&gt;", "|": "&#124;", "²": "<msup><mi></mi><mn>2</mn></msup>"}
TOKEN = re.compile(r"\s+|\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?|[A-Za-zα-ωΑ-Ω]+|<-|->|<=|>=|!=|==|\.{2,3}|[-+*/=<>.,:;|?&~!()\[\]{}_^'%²≤≥←−·×]")
CLOSE = {"(": ")", "[": "]", "{": "}"}
unclear = []  # parts of formulas that are none


def op(text):
    return f'<mo stretchy="false">{SYMBOLS.get(text, text)}</mo>'


def scripted(tag, base, *scripts):
    return f"<{tag}>" + "".join(f"<mrow>{part}</mrow>" for part in (base, *scripts)) + f"</{tag}>"


class Formula:
    def __init__(self, text):
        self.parts, self.at = TOKEN.findall(text), 0
        if "".join(self.parts) != text:
            raise ValueError(text)

    def peek(self, ahead=0):
        return self.parts[self.at + ahead] if 0 <= self.at + ahead < len(self.parts) else ""

    def take(self):
        self.at += 1
        return self.parts[self.at - 1]

    def row(self, end=""):
        """All up to the bracket `end`."""
        out = []
        while self.peek() != end:
            token = self.peek()
            if not token or token in ")]}":
                raise ValueError("brackets")
            if token.isspace():
                if out and re.match(r"[\w)\]}'][\w(\[]", self.peek(-1)[-1:] + self.peek(1)[:1]):  # a product, side by side
                    out.append('<mspace width="0.25em"/>')
                self.take()
            elif token[0].isalnum() or token in CLOSE:
                part = self.atom()
                if token[0] == "d" and self.peek() == "/" and self.peek(1)[:1] == "d":
                    self.take()
                    part = scripted("mfrac", part, self.atom())
                out.append(part)
            elif token in "_^'²" and out and not self.peek(1).isspace():
                out.append(self.scripts(out.pop()))
            else:
                between = self.peek(-2)[:1] + self.peek(2)[:1]
                out.append(op("×" if token == "*" and len(between) == 2 and between.isdigit() else token))
                self.take()
        if end:
            self.take()
        return "".join(out)

    def atom(self):
        """A number, a name or a bracket, with its scripts."""
        token = self.take()
        if token in CLOSE:
            base = f"<mrow>{op(token)}<mrow>{self.row(CLOSE[token])}</mrow>{op(CLOSE[token])}</mrow>"  # a minus in front is a sign
        else:
            base = f"<mn>{token}</mn>" if token[0].isdigit() else self.name(token)
        while token[0].isalpha() and self.peek() == "[":
            self.take()
            base += op("[") + self.row("]") + op("]")
        return self.scripts(base, token == "sum")

    def scripts(self, base, below=False):
        sub = sup = ""
        while self.peek() and self.peek() in "_^'²":
            mark = self.take()
            if mark == "_":
                sub += self.script()
            elif mark == "'":
                base = f"<mrow>{base}<mo>′</mo></mrow>"
            else:
                sup += "<mn>2</mn>" if mark == "²" else self.script()
        if sub and sup:
            return scripted("msubsup", base, sub, sup)
        if sub:
            return scripted("munder" if below else "msub", base, sub)
        return scripted("msup", base, sup) if sup else base

    def script(self):
        token = self.take() if self.peek() else ""
        if token in ("(", "{"):
            return self.row(CLOSE[token])
        if token in ("-", "+", "−"):
            return op(token) + self.script()
        if token == "|":
            inside = "".join(iter(lambda: self.atom() if self.peek() != "|" else self.take(), "|"))
            return op("|") + inside + op("|")
        if token.isalpha() and token not in NAMES and len(token) < 4:
            return "".join(f"<mi>{c}</mi>" for c in token)
        if not token.isalnum():
            raise ValueError("script")
        return f"<mn>{token}</mn>" if token.isdigit() else self.name(token)

    def name(self, token):
        if token == "sqrt" and self.peek() == "(":
            self.take()
            return f"<msqrt>{self.row(')')}</msqrt>"
        if token == "sum" and self.peek() != "(":
            return '<mo movablelimits="true">∑</mo>'
        if token[0] == "d" and (len(token) == 2 or token[1:] in NAMES):
            return f"<mrow><mi>d</mi>{self.name(token[1:])}</mrow>"
        short = token in GREEK or len(token) == 1
        base = f"<mi>{GREEK.get(token, token)}</mi>" if short or token in NAMES else f"<mtext>{token}</mtext>"
        return f"<msub>{base}<mn>{self.take()}</mn></msub>" if short and self.peek().isdigit() else base  # w1, beta2


def mathml(text):
    return f"<math><mrow>{Formula(text).row()}</mrow></math>"


def words(text):
    """Words of `text` that are not of the notation."""
    return [w for w in re.findall(r"[A-Za-z]{2,}", re.sub(r"_\w+|\d[\d.]*e[-+]?\d+", " ", text))
            if w not in NAMES and not (w[0] == "d" and (len(w) == 2 or w[1:] in NAMES))]


def inline(code):
    """A span of code as a formula, or as it is."""
    if not words(code) and not re.search(r"::|\(\)|[;\"]|\+=|^[\[\]\d, .]+$|[A-Za-z]{4,}_|_\w{4,}|__", code) and re.search(
            r"^d?[A-Za-z]$|[_^=/|'(<]| [-+*.] |[a-z] [a-z]|\d ", code):
        try:
            return f'<span class="m">{mathml(code)}</span>'
        except ValueError:
            pass
    return f"`{code}`"


def prose(text):
    """Elements like y_i, sums and powers that stand in text."""
    return re.sub(r"(?<![\w`/.^-])(?:(?:d?[a-zA-Z]|sum)_(?:[a-z]{1,2}|\d)|(?:\d+|[a-zA-Z])\^-?\d+)(?![\w`/(.]*[\w`/(])",
                  lambda m: f'<span class="m">{mathml(m[0])}</span>', text.replace("][", "]&#91;"))  # which is no link


def cell(text):
    text = text.replace("`", "")
    formula = re.search(r"[=←]|<-", text)
    try:
        if formula or len(words(text)) <= 2:
            return mathml(text)
    except ValueError:
        if formula:
            unclear.append(text)
    return prose(html.escape(text, quote=False))


def block(match):
    """Indented lines as a table of formulas, each part below those that began in its column."""
    lines = [line[4:] for line in match[1].rstrip("\n").split("\n")]
    before = [line for line in match.string[:match.start()].split("\n") if line.strip() and not line.startswith("    ")]
    if (before and re.match(r" |[-*] |\d+\. ", before[-1])  # goes on in an item of a list
            or not any(re.search(r" = |<-|←|\d", line) for line in lines) or any(re.search(r"[;{]$|\(\)", line) for line in lines)):
        return match[0]
    rows = [{m.start(): m[0] for m in re.finditer(r"\S+(?: \S+)*", line)} for line in lines]
    columns, out = sorted({start for row in rows for start in row}), ""
    for row in rows:
        ends = [*list(row)[1:], 1000]
        out += "<tr>" + "".join(f'<td colspan="{sum(start <= c < end for c in columns)}">{cell(row[start])}</td>'
                                for start, end in zip(row, ends)) + "</tr>"
    return f'<div class="formula"><table>{out}</table></div>\n'


def formulas(text):
    text = re.sub(r"\$\$(.+?)\$\$", lambda m: f'<div class="formula">{convert(m[1], display="block")}</div>', text, flags=re.S)
    text = re.sub(r"(?<=\n\n)((?: {4}.*\n)+)(?=\n|$)", block, text)
    text = re.sub(r"(?<![`\w])`([^`\n]+)`(?!`)", lambda m: inline(m[1]), text)
    kept = re.split(r"(<math.*?</math>|<figure.*?</figure>|`[^`]*`|<[^>]*>|\]\([^)]*\)|^ {4}.*$)", text, flags=re.M | re.S)
    kept[::2] = map(prose, kept[::2])
    return "".join(kept)


def translate(text):
    """A page of Markdown with its formulas as MathML; fenced code stays as it is."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    parts[::2] = map(formulas, parts[::2])
    return "".join(parts)
