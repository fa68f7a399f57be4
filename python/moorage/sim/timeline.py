"""Timeline: events that are read from traces and scenarios, and written as scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from .event_columns import Event, EventColumns, Verb
from .scenario import bursts, diurnal, exponential, lognormal, poisson, write_scenario

__all__ = ["Event", "Timeline", "Verb", "bursts", "diurnal", "exponential", "lognormal", "poisson"]


class Timeline(EventColumns):
    """Events in the order of time, and the cluster with which they begin.

    An event is five numbers. Names are interned, and so are the objects, patches and texts that events
    have as arguments: a thousand pods of one shape share one template. Events of one time happen in the
    order in which they were added, and pods are tried after all of them. Methods that are named as verbs add
    an event each, at a time in seconds since the start.

    Parameters
    ----------
    cluster : Cluster, optional
        The objects at the start.

    Attributes
    ----------
    cluster : Cluster
    subjects : list of str
        References of the objects that events are about, such as ``pod/default/web``.
    arguments : list of object
        The arguments of events; objects are templates, which get the name of the event.
    measures : list of str or dict
        Measures of its histories, by name or as ``{name: options}`` (docs/measures.md).
    autoscaler : AutoscalerSpec or None
        What adds and removes nodes in its replays; see `autoscale`.
    notes : dict of str to int
        What a loader has left out or repaired, with its count.
    """

    @classmethod
    def read(cls, *paths: str | Path, format: str = "auto", **options: Any) -> Self:
        """Read a trace or a scenario; see `moorage.sim.loaders`.

        Parameters
        ----------
        format : str, optional
            By default found from the files.
        **options : object
            Of the format.

        Raises
        ------
        InputError
            A file cannot be read.
        """
        from .loaders.formats import fill

        timeline = cls()
        fill(timeline, paths, format, options)
        return timeline

    def write(self, path: str | Path) -> None:
        """Write the timeline as a scenario, which `read` reads.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        write_scenario(self, path)
