"""The paper's distributed topology: routers, workers, coordinator and aggregator."""
