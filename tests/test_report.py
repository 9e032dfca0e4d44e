"""The report: one file, everything inside it, everything escaped."""
import re
import sys
from html.parser import HTMLParser

import pytest

from tickwheel.extras import MissingExtra
from tickwheel.machine import machine
from tickwheel.report import Report, new_figure

VOID = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """Checks that tags nest; gathers tables, text and whatever would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.texts, self.links = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def figure(label="pending & <due>"):
    pytest.importorskip("matplotlib")
    drawn = new_figure()
    axes = drawn.subplots()
    axes.plot([0, 1, 2], [3, 1, 2], label=label)
    axes.legend()
    return drawn


def test_the_machine_is_named_first():
    """Numbers without their machine mean nothing: it opens the page."""
    page = Page(Report("Numbers", packages=("pytest", "no-such-package")).html())
    facts = dict(page.tables[0][1:])
    assert facts == machine(["pytest", "no-such-package"])
    assert facts["pytest"] == pytest.__version__
    assert facts["no-such-package"] == "not installed"
    assert re.fullmatch(r".+ \((cython|python) core\)", facts["tickwheel"])
    assert {"CPU", "cores", "system", "Python"} <= facts.keys()
    assert all(facts.values())


def test_tables_show_their_cells():
    """Thousands are set apart, None is a dash, columns of numbers stand to the right."""
    report = Report("Numbers")
    report.table("Costs", [("N", "ns", "note"), (100_000, 1.23456, "fast"), (None, 12345.6, True)])
    html = report.html()
    assert Page(html).tables[1] == [["N", "ns", "note"], ["100,000", "1.23", "fast"], ["-", "12,346", "True"]]
    assert '<td class="number">100,000</td><td class="number">1.23</td><td>fast</td>' in html


def test_a_table_may_be_empty_but_not_ragged():
    """A header alone is a table; a row of another length is a mistake."""
    report = Report("Numbers")
    report.table("None yet", [("a", "b")])
    assert Page(report.html()).tables[1] == [["a", "b"]]
    with pytest.raises(ValueError, match="argument"):
        report.table("Ragged", [("a", "b"), (1, 2), (3,)])
    with pytest.raises(ValueError, match="argument"):
        report.table("Ragged", [("a", "b"), (1, 2, 3)])


def test_everything_is_escaped():
    """Titles, captions, cells, paragraphs and labels are text, whatever they hold."""
    nasty = "<script>alert('1')</script> & \"quotes\""
    report = Report(nasty)
    report.text(nasty)
    report.table(nasty, [(nasty,), (nasty,)])
    report.plot(nasty, figure(nasty))
    html = report.html()
    assert "<script" not in html
    assert Page(html).texts.count(nasty) == 8


def test_plots_are_inside_and_nothing_is_fetched():
    """Inline SVG in the reader's ink: no image, style sheet, script or address outside the page."""
    report = Report("Plots")
    report.plot("First", figure())
    report.plot("Second", figure())
    html = report.html()
    page = Page(html)
    assert html.count("<svg") == 2
    assert "pending & <due>" in page.texts
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"<(script|link|img|iframe|object)|@import|url\((?!#)", html)
    assert "currentColor" in html
    assert "#000000" not in html


def test_the_same_report_is_the_same_bytes():
    """Neither dates nor random names: reports can be compared."""

    def made():
        report = Report("Plots")
        report.plot("First", figure())
        return report.html()

    assert made() == made()


def test_it_is_written_whole_or_not_at_all(tmp_path):
    """A folder that is not there is named; nothing is left behind."""
    path = tmp_path / "report.html"
    Report("Zwölf µs").write(str(path))
    assert "Zwölf µs" in path.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError) as caught:
        Report("Plots").write(str(tmp_path / "no" / "report.html"))
    assert caught.value.filename == str(tmp_path / "no" / "report.html")
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_tables_still_work(monkeypatch):
    """Only a plot needs the extra, and says which."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = Report("Numbers")
    report.table("Costs", [("N",), (1,)])
    assert "Costs" in report.html()
    with pytest.raises(MissingExtra) as caught:
        new_figure()
    assert str(caught.value) == "a report with plots needs matplotlib: pip install 'tickwheel[report]'"
