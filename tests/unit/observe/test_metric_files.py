"""Documents, alert rules and dashboard name what the registry holds, in valid PromQL."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from twophase.call_watch import CallWatch
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.observe import TASK, announce, notify, scope_record
from twophase.prometheus import PrometheusHook

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "twophase.json").read_text())
TARGETS = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
]
PROMTOOL = shutil.which("promtool")
# What Prometheus itself adds to every series, and the one series that it makes.
SCRAPED = {"job", "instance"}


def seen():
    """The metrics of a hook that has seen a call end while another goes on."""
    registry = CollectorRegistry()
    hook = PrometheusHook(registry)
    batch, name, watch = Batch("q", 3, "h", first_try=True), SinkName("orders"), CallWatch()
    announce([hook], name, 3, watch)
    watch.opens(60.0)
    for error in (None, ValueError("mine")):
        record = scope_record(name, batch, path=TASK, ended=None, watch=watch, error=error)
        notify([hook], record)
    return registry


def samples():
    """Each sample's name, with its labels and their values."""
    registry = seen()
    ProcessCollector(registry=registry)
    found = {"up": SCRAPED}
    for family in registry.collect():
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, set()) | set(sample.labels) | SCRAPED
    return found


SAMPLES = samples()


def test_the_document_lists_every_metric():
    """Name, type and labels of each are in its table, and nothing that is not there."""
    rows = re.findall(r"^\| `(twophase_\w+)` \| (\w+) \| ([^|]*)\|", DOCUMENT, re.MULTILINE)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    found = {}
    for family in seen().collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = set().union(*(set(sample.labels) for sample in family.samples))
        found[name] = (family.type, labels - {"sink_id", "le"})
    assert listed == found


def named_in(text):
    """The metrics that an expression names, each with the labels it asks for, and what it groups.

    The parser refuses what is no PromQL, also where types do not fit.
    """
    metrics, grouped = {}, set()

    def visit(node):
        if isinstance(node, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in node.matchers.matchers}
            metrics[node.name] = metrics.get(node.name, set()) | labels
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            grouped.update(node.modifier.labels)

    # What Grafana puts in for its variables.
    text = text.replace("$__rate_interval", "1m").replace("$sink_id", ".*")
    promql_parser.walk(promql_parser.parse(text), visit)
    return metrics, grouped


def check(expression, shown):
    """Every metric and label of an expression, and of the text about it, is there."""
    metrics, grouped = named_in(expression)
    assert metrics, expression
    assert set(metrics) <= set(SAMPLES), expression
    for metric, labels in metrics.items():
        assert labels <= SAMPLES[metric], f"{expression}: {metric}"
    assert grouped | shown <= set().union(*(SAMPLES[metric] for metric in metrics)), expression


def test_the_check_finds_what_is_wrong():
    """A misspelt metric, label or function is seen."""
    for wrong in (
        "twophase_rows > 0",
        'increase(twophase_fences_total{sink="a"}[5m]) > 0',
        "sum by (sink) (twophase_last_batch)",
    ):
        with pytest.raises(AssertionError):
            check(wrong, set())
    for invalid in ("increase(twophase_fences_total) > 0", "summ(up)", "up >"):
        with pytest.raises(ValueError, match=r"expected type|unknown function|invalid promql"):
            named_in(invalid)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert(rule):
    """Valid, about metrics that are there, explained, with a place that says what to do."""
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    texts = rule["annotations"]
    assert set(texts) == {"summary", "description", "runbook"}
    check(rule["expr"], set(re.findall(r"\$labels\.(\w+)", "".join(texts.values()))))
    assert f"| `{rule['alert']}` |" in DOCUMENT
    page, _, anchor = texts["runbook"].partition("#")
    titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    assert not anchor or anchor in {title.lower().replace(" ", "-") for title in titles}


def test_the_document_lists_no_alert_that_is_not_there():
    """And every metric has its place in alerts or dashboard."""
    assert set(re.findall(r"^\| `(Twophase\w+)` \|", DOCUMENT, re.MULTILINE)) == {
        rule["alert"] for rule in RULES
    }
    used = {
        metric.removesuffix("_bucket")
        for text in [rule["expr"] for rule in RULES] + [expression for _, expression in TARGETS]
        for metric in named_in(text)[0]
    }
    assert used >= set(re.findall(r"^\| `(twophase_\w+)` \|", DOCUMENT, re.MULTILINE))


@pytest.mark.parametrize(("title", "expression"), TARGETS)
def test_a_panel(title, expression):
    """Valid, about metrics that are there."""
    (panel,) = [each for each in DASHBOARD["panels"] if each["title"] == title]
    legends = "".join(target["legendFormat"] for target in panel["targets"])
    check(expression, set(re.findall(r"\{\{(\w+)\}\}", legends)))


def test_the_dashboard():
    """It can be imported: ids are unique, panels do not lie on each other, variables are there."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == set(variables)
    query = variables["sink_id"]["query"]["query"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()
    assert label in SAMPLES[metric]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on this machine")
@pytest.mark.parametrize(
    "command", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")]
)
def test_promtool_says_so_too(command):
    """The rules are valid to Prometheus itself, and each alert fires when it should and ends."""
    done = subprocess.run(
        [PROMTOOL, *command], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_each_alert_is_in_promtools_tests():
    """None is left out of what is shown to fire."""
    text = (ALERTS.parent / "alerts_test.yaml").read_text()
    assert [rule["alert"] for rule in RULES if rule["alert"] not in text] == []
