"""What Prometheus would see: the values of one scrape."""

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """The samples of one answer, by name and labels."""

    def __init__(self, text):
        self.families = list(text_string_to_metric_families(text))

    def __call__(self, name, sink_id="orders", **labels):
        """The sum of the samples with these labels; None where there is none."""
        wanted = {"sink_id": sink_id, **labels}
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == f"twophase_{name}" and wanted.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


def scrape(url):
    """Ask as Prometheus does."""
    with urlopen(url, timeout=30) as answer:
        return Scrape(answer.read().decode())
