"""Metrics for Prometheus; each app has its own registry."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, open files, start time
        self.requests = Counter(
            "transduce_requests", "Requests answered.", ["endpoint", "status"], registry=registry
        )
        self.seconds = Histogram(
            "transduce_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ["endpoint"],
            buckets=SECONDS,
            registry=registry,
        )
        self.sentences = Counter(
            "transduce_sentences", "Sentences searched.", ["model"], registry=registry
        )
        self.batches = Histogram(
            "transduce_batch_sentences",
            "Sentences per batch.",
            ["model"],
            buckets=SIZES,
            registry=registry,
        )
        self.batch_seconds = Counter(
            "transduce_batch_seconds", "Seconds spent searching.", ["model"], registry=registry
        )
        self.queue = Gauge(
            "transduce_queue_sentences", "Sentences waiting or being searched.", registry=registry
        )

        self.versions = Gauge(
            "transduce_model_info",
            "1 for the weights that each model serves.",
            ["model", "version"],
            registry=registry,
        )
        self.reloads = Counter(
            "transduce_reloads", "Reloads of models.", ["model", "result"], registry=registry
        )
        self._version: dict[str, str] = {}

    def set_version(self, model: str, version: str) -> None:
        """Set the version of a model's weights."""
        if model in self._version:
            self.versions.remove(model, self._version[model])
        self._version[model] = version
        self.versions.labels(model, version).set(1)
        for result in ("replaced", "failed"):
            self.reloads.labels(model, result)  # shown as 0 before the first reload

    def count_batch(self, model: str, sentences: int, seconds: float) -> None:
        """Count a batch."""
        self.sentences.labels(model).inc(sentences)
        self.batches.labels(model).observe(sentences)
        self.batch_seconds.labels(model).inc(seconds)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
