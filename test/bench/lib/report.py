"""
report - what was measured as a table for the terminal, as Markdown and as a chart (SVG, written by hand: no library).

Each scenario's result is plain data (harness.measure) in a file of its own, OUT/results.d/SCALE/NAME.json: so a
long run can be cut into pieces, and results.md always shows the newest result of each scenario at that scale.
"""
import html
import json
import os
import platform
import re

BEGIN = "<!-- results begin: written by `test/bench/run report docs`, not by hand -->"
END = "<!-- results end -->"
BASIS = {"seconds": "time", "seconds per byte": "time per byte", "memory": "memory"}


# ---------------------------------------------------------------- kept results

def folder(out, scale):
    return os.path.join(out, "results.d", "%g" % scale)


def write_file(path, content):
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(content)
    os.rename(path + ".new", path)


def keep(out, result):
    os.makedirs(folder(out, result["scale"]), exist_ok=True)
    write_file(os.path.join(folder(out, result["scale"]), result["name"] + ".json"), json.dumps(result, indent=1) + "\n")


def kept(out, scale, names):
    """The results that there are, in the order of names."""
    found = []
    for name in names:
        path = os.path.join(folder(out, scale), name + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                found.append(json.load(f))
    return found


def published(docs, done, names):
    """
    What docs/ shows: done, and of what was published before and measured on the same machine and versions, the
    scenarios that done does not have.  So a new figure for one scenario does not cost hours for the others.
    """
    path = os.path.join(docs, "performance.json")
    old = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = json.load(f)
    newest = max(done, key=lambda s: s["when"])
    by_name = {s["name"]: s for s in old if s["facts"] == newest["facts"] and s["scale"] == newest["scale"]}
    by_name.update({s["name"]: s for s in done})
    return [by_name[name] for name in names if name in by_name]


# ---------------------------------------------------------------- figures

def number(value):
    """About three significant digits."""
    if value >= 100:
        return "%.0f" % value
    return "%.*f" % (1 if value >= 10 else 2, value)


def value_of(result, of):
    """What a bar compares, or None."""
    if of == "memory":
        return result["memory"]
    if of == "seconds per byte":
        return result["median"] / result["work"] if result["work"] else None
    return result["median"]


def bars_of(scenario):
    """Each bar as (text, at most, measured, spread, met); those about ways that did not run are left out."""
    by_name = {r["name"]: r for r in scenario["results"]}
    for bar in scenario["bars"]:
        a, b = by_name.get(bar["way"]), by_name.get(bar["other"])
        if not a or not b or not value_of(a, bar["of"]) or not value_of(b, bar["of"]):
            continue
        ratio = value_of(a, bar["of"]) / value_of(b, bar["of"])
        pairs = [a["seconds"][n] / b["seconds"][n] for n in a["seconds"] if n in b["seconds"]]
        spread = "%.2f to %.2f" % (min(pairs), max(pairs)) if bar["of"] == "seconds" and pairs else ""
        faster = " (%.2f times as fast)" % (1 / ratio) if bar["of"] == "seconds" and ratio < 1 else ""
        yield ("%s of `%s` over that of `%s`" % (BASIS[bar["of"]], bar["way"], bar["other"]), "%.2f" % bar["most"],
               "%.2f%s" % (ratio, faster), spread, "met" if ratio <= bar["most"] else "missed")


HEAD = ("way", "", "median s", "min", "max", "runs", "ratio", "MB/s", "peak MB", "engine")
LEFT = (0, 1, 9)                # columns of words


def rows_of(scenario):
    """The table's cells, as text."""
    results = scenario["results"]
    for i, r in enumerate(results):
        seconds = r["seconds"].values()
        yield (r["name"], r["title"], number(r["median"]), number(min(seconds)), number(max(seconds)), str(len(seconds)),
               "" if i == 0 else "%.2f" % (r["median"] / results[0]["median"]),
               "%.0f" % (r["work"] / 1e6 / r["median"]) if r["work"] else "",
               "%.0f" % (r["memory"] / 1e6) if r["memory"] else "", r["engine"])


def print_table(scenario):
    rows = list(rows_of(scenario))
    widths = [max(len(row[i]) for row in rows + [HEAD]) for i in range(len(HEAD))]
    for row in [HEAD] + rows:
        cells = [cell.ljust(widths[i]) if i in LEFT else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        print(("   " + "  ".join(cells)).rstrip(), flush=True)
    for what, most, measured, spread, met in bars_of(scenario):
        print("   %-6s %s: %s, at most %s wanted%s" % (met, what, measured, most, "; pairs " + spread if spread else ""),
              flush=True)


def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
        model = " ".join(found.group(1).split()) if found else platform.machine()
    with open("/proc/meminfo", encoding="utf-8") as f:
        memory = int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1)) / 1024 / 1024
    return "%d cores (%s), %.0f GB of memory, Linux %s" % (os.cpu_count(), model, memory, platform.release().split("-")[0])


# ---------------------------------------------------------------- Markdown

def markdown_table(head, left, rows):
    out = ["| %s |" % " | ".join(head), "|%s|" % "|".join("---" if i in left else "---:" for i in range(len(head)))]
    return out + ["| %s |" % " | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]


def body(done, level, chart):
    """Everything below the title; level: the marks of a scenario's heading."""
    facts = max(done, key=lambda s: s["when"])["facts"]
    out = ["Scale %g.%s" % (done[0]["scale"], "" if done[0]["scale"] == 1 else
                           "  **Not the real size: these figures say nothing.**"), ""]
    out += ["- %s" % fact for fact in facts]
    out += ["", "The database, the store and the clients share the machine.  In each round every way runs once, in turn; slow ways",
            "take part in fewer rounds (*runs*).  Seconds are wall-clock time as the caller sees it: for pgobjstore from the",
            "call of `objstore_push` or `objstore_pull` to the return of `objstore_wait`, with the start of psql, for the others",
            "from start to end of the command, for `encode-*` those of the statement.  *ratio* is a median over the median of the",
            "first line.  *MB/s* counts the bytes of the table as csv.  *peak MB* is the private memory (RssAnon) of one worker,",
            "the largest.  *engine* says whether rows went through COPY.", "", "![chart](%s)" % chart]
    bars = [(s["name"],) + bar for s in done for bar in bars_of(s)]
    if bars:
        out += ["", "%s What was aimed at" % level, "",
                "Medians of one run; *pairs*: the least and the largest ratio within a round.", ""]
        out += markdown_table(("scenario", "bar", "at most", "measured", "pairs", ""), (0, 1, 3, 4, 5), bars)
    for s in done:
        out += ["", "%s %s: %s" % (level, s["name"], s["title"]), ""]
        out += markdown_table(HEAD, LEFT, rows_of(s))
        out += ["", "%s UTC, %d rounds; load average before and after: %s, %s%s." % (
            s["when"], s["rounds"], s["load"][0], s["load"][1], "; commit " + s["commit"] if s["commit"] else "")]
    return out


def write(out, done):
    write_file(os.path.join(out, "results.md"),
               "\n".join(["# Benchmark", "", "Written by `make bench`."] + body(done, "##", "results.svg")) + "\n")
    write_file(os.path.join(out, "results.svg"), svg(done))


def write_docs(docs, done):
    """The part between the marks of PERFORMANCE.md, its chart, and performance.json, which published() reads."""
    path = os.path.join(docs, "PERFORMANCE.md")
    with open(path, encoding="utf-8") as f:
        content = f.read()
    before, begin, rest = content.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit("%s has no marks for the results" % path)
    write_file(os.path.join(docs, "performance.json"),
               "[\n%s\n]\n" % ",\n".join(json.dumps(s, sort_keys=True) for s in done))
    write_file(os.path.join(docs, "performance.svg"), svg([s for s in done if s["chart"]] or done))
    write_file(path, before + BEGIN + "\n" + "\n".join(body(done, "###", "performance.svg")) + "\n" + END + after)


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
    lines = []
    y = 34
    for scenario in done:
        results = scenario["results"]
        longest = max(max(r["seconds"].values()) for r in results)
        scale = (WIDTH - LABEL - 130) / longest
        lines.append(text(16, y, scenario["title"], 14, weight="bold"))
        y += 10
        for i, r in enumerate(results):
            middle = y + LINE / 2
            least, most = min(r["seconds"].values()) * scale, max(r["seconds"].values()) * scale
            lines.append(text(LABEL - 8, middle + 4, r["title"], 11, "end"))
            lines.append("<rect x='%g' y='%g' width='%.1f' height='%g' rx='2' fill='%s'/>" % (
                LABEL, middle - BAR / 2, max(1, r["median"] * scale), BAR, "#336791" if r["ours"] else "#b8bfc6"))
            lines.append("<path d='M%.1f %g V%g M%.1f %g H%.1f M%.1f %g V%g' stroke='#222' fill='none'/>" % (
                LABEL + least, middle - 3, middle + 3, LABEL + least, middle, LABEL + most, LABEL + most, middle - 3, middle + 3))
            note = number(r["median"]) + " s"
            if i > 0:
                note += "  (%.2f times)" % (r["median"] / results[0]["median"])
            lines.append(text(LABEL + most + 6, middle + 4, note, 11))
            y += LINE
        y += 30
    return ("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' %s>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n%s\n</svg>\n"
            % (WIDTH, y, WIDTH, y, SANS, "\n".join(lines)))
