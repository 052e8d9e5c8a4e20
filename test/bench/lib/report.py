"""
report - the results as a table for the terminal, as Markdown and as a chart (SVG, written by hand: no library).
"""
import html
import os
import platform
import re

from harness import PAIRS, SCALE


def number(value, digits=3):
    """About three significant digits."""
    if value >= 100:
        return "%.0f" % value
    return "%.*f" % (1 if value >= 10 else 2, value)


def goals(result, results):
    """Each goal with what became of it; those about ways that did not run are left out."""
    by_name = {r.way.name: r for r in results}
    out = []
    for name, wanted in result.way.goals.items():
        if name in by_name:
            ratio = result.median / by_name[name].median
            out.append("%.2f of %s: %.2f %s" % (wanted, name, ratio, "met" if ratio >= wanted else "missed"))
    return "; ".join(out)


def rows_of(results):
    """The table's cells, as text."""
    base = results[0].median
    for i, r in enumerate(results):
        yield (r.way.name, r.way.title, number(r.median), number(min(r.seconds)), number(max(r.seconds)),
               "" if i == 0 else "%.2f" % (r.median / base),
               "%.0f" % (r.work / 1e6 / r.median) if r.work else "",
               "%.0f" % (r.memory / 1e6) if r.memory else "", goals(r, results))


HEAD = ("way", "", "median s", "min", "max", "ratio", "MB/s", "peak MB", "goal")
LEFT = (0, 1, 8)                # columns of words


def print_table(scenario, results):
    rows = list(rows_of(results))
    widths = [max(len(row[i]) for row in rows + [HEAD]) for i in range(len(HEAD))]
    for row in [HEAD] + rows:
        cells = [cell.ljust(widths[i]) if i in LEFT else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        print(("   " + "  ".join(cells)).rstrip(), flush=True)


def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
        model = " ".join(found.group(1).split()) if found else platform.machine()
    with open("/proc/meminfo", encoding="utf-8") as f:
        memory = int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1)) / 1024 / 1024
    return "%d cores (%s), %.0f GB of memory, Linux %s" % (os.cpu_count(), model, memory, platform.release().split("-")[0])


def markdown(done, facts):
    out = ["# Benchmark", "",
           "Made by `make bench SCALE=%g` with %d rounds; in each round every way runs once, in the order of the table."
           % (SCALE, PAIRS), "",
           "- %s" % machine()]
    out += ["- %s" % fact for fact in facts]
    out += ["", "The database, the store and the clients share the machine.  Seconds are wall-clock time as the caller sees",
            "it: for pgobjstore from the call of `objstore_push` or `objstore_pull` to the return of `objstore_wait`, with",
            "the start of psql, for the others from start to end of the command.  *ratio* is a median over the median of",
            "the first line.  *MB/s* counts the bytes of the table as csv.  *peak MB* is the memory of one worker, the largest,",
            "without the server's shared memory.  *goal*: the least ratio to another line that the project wants to reach.", "",
            "![chart](results.svg)"]
    for scenario, results in done:
        out += ["", "## %s: %s" % (scenario.name, scenario.title), "",
                "| %s |" % " | ".join(HEAD), "|%s|" % "|".join("---" if i in LEFT else "---:" for i in range(len(HEAD)))]
        out += ["| %s |" % " | ".join(cell.replace("|", "\\|") for cell in row) for row in rows_of(results)]
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- chart

WIDTH = 960
LABEL = 370
LINE = 20
BAR = 12
SANS = "font-family='system-ui, sans-serif'"


def text(x, y, value, size=12, anchor="start", weight="normal", fill="#222"):
    return "<text x='%g' y='%g' font-size='%d' text-anchor='%s' font-weight='%s' fill='%s'>%s</text>" % (
        x, y, size, anchor, weight, fill, html.escape(value))


def svg(done):
    """A group of bars for each scenario: median, with a line from the fastest to the slowest run."""
    body = []
    y = 34
    for scenario, results in done:
        longest = max(max(r.seconds) for r in results)
        scale = (WIDTH - LABEL - 130) / longest
        body.append(text(16, y, scenario.title, 14, weight="bold"))
        y += 10
        for i, r in enumerate(results):
            middle = y + LINE / 2
            body.append(text(LABEL - 8, middle + 4, r.way.title, 11, "end"))
            body.append("<rect x='%g' y='%g' width='%.1f' height='%g' rx='2' fill='%s'/>" % (
                LABEL, middle - BAR / 2, max(1, r.median * scale), BAR, "#336791" if r.way.ours else "#b8bfc6"))
            body.append("<path d='M%.1f %g V%g M%.1f %g H%.1f M%.1f %g V%g' stroke='#222' fill='none'/>" % (
                LABEL + min(r.seconds) * scale, middle - 3, middle + 3, LABEL + min(r.seconds) * scale, middle,
                LABEL + max(r.seconds) * scale, LABEL + max(r.seconds) * scale, middle - 3, middle + 3))
            note = number(r.median) + " s"
            if i > 0:
                note += "  (%.2f times)" % (r.median / results[0].median)
            body.append(text(LABEL + max(r.seconds) * scale + 6, middle + 4, note, 11))
            y += LINE
        y += 30
    return ("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' %s>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n%s\n</svg>\n"
            % (WIDTH, y, WIDTH, y, SANS, "\n".join(body)))


def write(directory, done, facts):
    for name, content in (("results.md", markdown(done, facts)), ("results.svg", svg(done))):
        path = os.path.join(directory, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(content)
        os.rename(path + ".new", path)
