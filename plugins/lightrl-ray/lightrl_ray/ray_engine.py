"""An engine in Ray actors."""

from lightrl import EngineHost, HostedEngine, RolloutEngine, required_package
from lightrl_ray.cluster import Cluster


class RayEngine(HostedEngine):
    """Hosts any engine in Ray actors, on this machine or on the nodes of a cluster, each with a model of its own.

    Requests are cut into slices of at most `slice_rows` of the engine, and each slice is decoded by one actor. Which requests share a
    slice depends on nothing but the requests, so `TransformersEngine` gives the same tokens for any number of actors, and the same as
    without any. An actor that dies or hangs is replaced and asked again.
    """

    many = "actors"

    def __init__(
        self,
        engine: RolloutEngine,
        actors: int = 1,
        resources: dict[str, float] | None = None,
        address: str | None = None,
        timeout_s: float = 600.0,
        max_replacements: int = 10,
        threads: int | None = None,
    ) -> None:
        """
        Args:
            engine: that each actor has a copy of; with several actors it needs `slice_rows`.
            actors: on every rank.
            resources: that Ray reserves for each actor, such as `{CPU: 4, GPU: 1}`; CPU is 1 if it is not named. With a GPU the model
                lies there.
            address: of a running cluster, as `host:port` or `auto`; null: Ray is started on this machine and ends with the run.
            timeout_s: seconds in which an actor must take new weights, and give the next result. It has as long to start, and 300 at
                least.
            max_replacements: actors that may be replaced; when one more fails, the run ends.
            threads: of each actor on the CPU; null: as many as the trainer has, so that numbers are rounded as there.

        Raises:
            ValueError: an argument outside its range, or one that leaves actors without work; or Ray is not installed.
        """
        required_package("ray", "lightrl-ray[full]", "RayEngine")
        self.actors, self.address = actors, address
        self.resources = {"CPU": 1.0, **(resources or {})}
        if wrong := {name: amount for name, amount in self.resources.items() if amount < 0}:
            raise ValueError(f"RayEngine needs resources >= 0, got {wrong}")
        super().__init__(engine, actors, timeout_s, max_replacements, threads, ["cuda" if self.resources.get("GPU") else "cpu"])

    def host(self, start_s: float) -> EngineHost:
        # Ray takes a second to import, and whoever lists plugins does not need it
        from lightrl_ray.ray_host import RayHost

        return RayHost(self.engine, Cluster(self.address, self.actors, self.resources), self.resources, self.timeout_s)
