"""Options for the cluster and the scheduler; the engine is imported when a command runs."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import NO_NODE, InputError, located, nearest, with_hint
from moorage.kube.read.files import STDIN
from moorage.kube.releases import (
    ADMISSION_PLUGINS,
    DEFAULT,
    OPTIONAL_PLUGINS,
    RELEASES,
    changed_gates,
    release_named,
)
from moorage.notes import FACT, RoutineNote, basis_of

from ..messages import BASIS, NOT_ASKED, REFUSED, note, print_message, print_warnings
from .option_types import (
    PLUGIN,
    Decorator,
    WholeNumber,
    all_of,
    input_option,
    offer,
    offer_contexts,
    offered_namespaces,
    scheduler_option,
    some_of,
    tie_break_option,
)

if TYPE_CHECKING:
    from moorage.answers.runs.loaded_cluster import LoadedCluster, PreparedInput, SchedulerSettings
    from moorage.cluster.verbs import RequestedChange
    from moorage.kube import Cluster
    from moorage.kube.model.about_input import AboutInput
    from moorage.kube.model.cluster import NotAsked
    from moorage.kube.read.read_objects import Listed
    from moorage.live.client import ApiClient

# ---- notes -------------------------------------------------------------------------------------------------


def print_notes(
    warnings: Iterable[str],
    *clusters: Cluster,
    facts: Iterable[str] = (),
    not_asked: Iterable[NotAsked] = (),
    basis: Iterable[str] | None = None,
    is_asked: bool = False,
) -> None:
    """Say what an answer rests on; what the input says of itself; which release decides for each cluster and
    why, if the input has told it and no warning says so; and the warnings of a command.

    Parameters
    ----------
    facts : iterable of str, optional
        See `told_facts`.
    not_asked : iterable of NotAsked, optional
        Who decides and cannot be asked, unless the answer says it.
    basis : iterable of str, optional
        What the answer rests on, in a few words each; by default the releases, and what the warnings have.
    is_asked : bool, optional
        Whether the question is about releases, so that the default is told as well.
    """
    for fact in facts:
        note(FACT, fact)
    for reviewer in not_asked:
        note(NOT_ASKED, reviewer.text)
    from moorage.kube.model.cluster import NOT_TOLD
    from moorage.kube.read.deciding_release import NAMED, NEAREST

    warned = " ".join(text for cluster in clusters for text in cluster.warnings)
    for release in dict.fromkeys(cluster.release for cluster in clusters):
        if release is None or release.reason == NAMED or NEAREST.format(release.version) in warned:
            continue
        if release.reason != NOT_TOLD:
            note("release", RoutineNote(f"Kubernetes {release.version} decides ({release.reason})"))
        elif is_asked:
            hint = f"{NAMED} chooses another"
            note("release", RoutineNote(f"Kubernetes {release.version} decides ({NOT_TOLD}; {hint})"))
    warnings = [*warnings]
    if basis is None:
        releases = [cluster.release.text for cluster in clusters if cluster.release is not None]
        basis = basis_of(releases, warnings)
    for text in basis:
        note(BASIS, text)
    print_warnings(warnings)


def told_about(
    cluster: Cluster,
    warnings: Sequence[str],
    facts: Sequence[str] = (),
    not_asked: Sequence[NotAsked] = (),
    basis: Iterable[str] | None = None,
) -> AboutInput:
    """Print the notes of an answer about a cluster, and return what its document says about the input."""
    from moorage.kube.model.about_input import about_input

    print_notes(warnings, cluster, facts=facts, not_asked=not_asked, basis=basis)
    return about_input(cluster, [*facts, *warnings], not_asked)


class ReleaseChoice(click.Choice[str]):
    """One of the releases, also by a version of it: ``1.37``, ``v1.37``, ``1.37.2``."""

    def __init__(self) -> None:
        super().__init__(tuple(RELEASES))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the minor version; see `click.ParamType`."""
        try:
            return release_named(value).version
        except ValueError:
            return super().convert(value, param, ctx)


# ---- inputs ------------------------------------------------------------------------------------------------

CURRENT = ""
"""In place of the name of a context: the current one."""


def _current_for_kubectl(context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Return the context of ``--context``; as a plugin of kubectl, the current one by default."""
    return CURRENT if given is None and context.find_root().info_name == PLUGIN else given


connection_options = all_of(
    input_option(
        "--kubeconfig",
        metavar="FILE",
        help="Use the cluster of this kubeconfig.",
    ),
    input_option(
        "--context",
        metavar="NAME",
        shell_complete=offer_contexts,
        callback=_current_for_kubectl,
        help="The context of the kubeconfig ($KUBECONFIG or ~/.kube/config); default: the current one.",
    ),
    input_option("--in-cluster", is_flag=True, help="Use the cluster in which this process runs as a pod."),
)


file_options = all_of(
    input_option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE|DIR|-",
        help="Manifests, dumps, or archives of them, compressed or not; - reads standard "
        "input. Repeatable: later files change the cluster of the first one, or of "
        "--kubeconfig.",
    ),
    input_option(
        "-R", "--recursive", is_flag=True, help="Also read the directories inside the directories of -f."
    ),
    input_option(
        "--hooks",
        is_flag=True,
        help="Also read the hooks with which Helm installs or upgrades a release.",
    ),
    input_option(
        "--validate",
        type=click.Choice(["strict", "warn", "ignore"]),
        default="strict",
        show_default=True,
        help="How to treat unknown and duplicate fields, as in kubectl apply.",
    ),
    input_option(
        "-n",
        "--namespace",
        metavar="NAME",
        shell_complete=offer(offered_namespaces),
        help="The namespace of objects that name none; simulate and explain show its pods alone.",
    ),
)


def _exemptions(_: click.Context, __: click.Parameter, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespaces and the runtime classes among names between commas."""
    names = [name.strip() for name in value.split(",") if name.strip()]
    classes = tuple([name.removeprefix(_CLASS) for name in names if name.startswith(_CLASS)])
    return tuple([name for name in names if not name.startswith(_CLASS)]), classes


def _input_options(shows_synthetic: bool = False) -> Decorator:
    """Return the options of the cluster, for `load_input`; ``--synthetic`` is for trying a command out."""
    return all_of(
        file_options,
        input_option(
            "--synthetic",
            metavar="nodes=N,pods=N[,zones=N]",
            hidden=not shows_synthetic,
            help="A made-up cluster instead of files.",
        ),
        connection_options,
        input_option(
            "--enable-admission-plugins",
            metavar="PLUGIN,…",
            callback=some_of(ADMISSION_PLUGINS),
            default="",
            help="Admission plugins of the API server that are off by default, such as "
            f"{', '.join(OPTIONAL_PLUGINS)}.",
        ),
        input_option(
            "--disable-admission-plugins",
            metavar="PLUGIN,…",
            callback=some_of(ADMISSION_PLUGINS),
            default="",
            help="Those that are on by default, and that the cluster switched off, such as PodSecurity.",
        ),
        input_option(
            "--exempt",
            metavar="NAMESPACE|runtimeclass/NAME,…",
            callback=_exemptions,
            default="",
            help="Namespaces and runtime classes that Pod Security does not look at.",
        ),
        input_option(
            "--as",
            "as_user",
            metavar="USER",
            default="",
            help="The user who makes the change, for admission policies; the default is an administrator.",
        ),
        input_option(
            "--as-group",
            "as_groups",
            metavar="GROUP",
            multiple=True,
            help="A group of this user; may be repeated.",
        ),
        input_option(
            "--like-siblings/--ignore-siblings",
            default=True,
            show_default=True,
            help="Whether new pods of a workload differ from its template as its running pods do, for "
            "example by the sidecar of a webhook.",
        ),
    )


_CLASS = "runtimeclass/"
input_options = _input_options()
input_or_synthetic_options = _input_options(shows_synthetic=True)


def load_input(options: Mapping[str, Any]) -> Cluster:
    """Load the cluster of ``--kubeconfig`` and ``-f``, or of ``--synthetic``; one of them is required.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options` and ``--seed``.
    """
    if len(_sources(options)) > 1 and options["synthetic"] is None:
        return load_before_and_after(options)[1]
    if options["synthetic"] is None:
        from moorage.answers.runs.loaded_cluster import ServerChecks
        from moorage.kube import load

        if (prepared := _prepared(options)) is not None:
            return _as_asked(prepared, options)
        check, paths = ServerChecks(options.get("version"), options.get("gates")), _files(options)
        with _naming_traces(options["files"]):
            cluster = load(*paths, **_reading(options), check=check, refused="ignore")
        cluster.warnings += check.warnings
        return _checked(cluster, options)
    from moorage.sim.synthetic import synthetic as make

    _files(options)
    return _checked(make(**_sizes(options["synthetic"]), seed=options["seed"]), options)


def load_before_and_after(options: Mapping[str, Any], tells_refused: bool = True) -> tuple[Cluster, Cluster]:
    """Load the cluster of ``--kubeconfig`` or else of the first ``-f``, and that of all.

    Parameters
    ----------
    options : mapping of str to object
        See `load_input`.
    tells_refused : bool
        Whether errors tell what is refused; else the answer does.

    Returns
    -------
    before, after : Cluster
        The same one without a second ``-f``.
    """
    if len(_sources(options)) < 2 or options["synthetic"] is not None:
        cluster = load_input(options)
        return cluster, cluster
    from moorage.answers.runs.loaded_cluster import ServerChecks
    from moorage.kube.read import load
    from moorage.kube.read.python_values import file_named
    from moorage.kube.read.read_objects import WithHooks

    check = ServerChecks(options.get("version"), options.get("gates"))
    before = _prepared({**options, "files": options["files"][:1]})
    if before is not None:
        further: list[Any] = [WithHooks()] if options.get("hooks") else []
        further += [file_named(name) for name in options["files"][1:]]
        reading = {name: value for name, value in _reading(options).items() if name != "like_siblings"}
        after = load.load_change(before, *further, **reading, check=check)
        if after is not None:
            after.warnings += check.warnings
            return before, _checked(after, options, tells_refused)
        sys.stdin.seek(0)  # a question is read again
    paths = _files(options)
    with _naming_traces(options["files"]):
        before, after = load.load_before_and_after(*paths, **_reading(options), check=check)
    after.warnings += check.warnings
    return before, _checked(after, options, tells_refused)


def held_inputs() -> Mapping[str, PreparedInput]:
    """Return what the caller of the command has prepared, by the name of a file; see `app.run`."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.find_root().obj or {}


def begun(cluster: Cluster, settings: Mapping[str, Any], changes: Sequence[RequestedChange]) -> LoadedCluster:
    """Return what runs of the current command over a cluster begin with; see `begin`."""
    from moorage.answers.runs.loaded_cluster import begin

    loaded = begin(cluster, settings, changes=changes, prepared=held_inputs().values())
    changed = {obj.key for _, obj in (() if cluster.change is None else cluster.change.objects)}
    refused = (pod for pod in loaded.scheduler.ask.refused_pods() if pod.pod.metadata.controller() is None)
    _tell_refused(pod.message for pod in refused if pod.pod.key in changed)
    return loaded


def prepare(held: PreparedInput, options: Mapping[str, Any]) -> None:
    """Prepare an input for commands with such options.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`, for the input alone, and of `scheduler_options`.
    """
    from moorage.answers.runs.loaded_cluster import LoadedCluster

    cluster = load_input(options)
    if cluster.refused_of_change:
        return  # each command tells it
    settings = scheduler_settings(options, cluster)
    held.keep(cluster_key(options), cluster)
    loaded = LoadedCluster(cluster, settings)
    loaded.look_ahead()
    held.keep((id(cluster), settings), loaded)


def _prepared(options: Mapping[str, Any]) -> Cluster | None:
    """Return the cluster of a single file, if it was prepared."""
    held, names = held_inputs(), options["files"]
    if len(names) != 1 or names[0] not in held or names_server(options):
        return None
    cluster: Cluster | None = held[names[0]].take(cluster_key(options))
    return cluster


def cluster_key(options: Mapping[str, Any]) -> object:
    """Return what a cluster depends on whose objects all name their namespace."""
    gates = changed_gates(options["gates"]) if "gates" in options else {}
    names = (
        *("validate", "recursive", "like_siblings", "exempt", "version", "as_user", "as_groups"),
        *("enable_admission_plugins", "disable_admission_plugins"),
    )
    return [*(options.get(name) for name in names), gates]


def names_server(options: Mapping[str, Any]) -> bool:
    """Whether options name an API server.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`.
    """
    return bool(options["kubeconfig"] or options["context"] is not None or options["in_cluster"])


def listed_once(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with the objects of the API server that they name, for a command that loads the cluster
    several times.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`.
    """
    return {**options, "listed": listed_objects(options)} if names_server(options) else options


def without_server(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that name no API server.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`.
    """
    return {**options, "kubeconfig": None, "context": None, "in_cluster": False}


def connected(options: Mapping[str, Any], timeout: float | None = None) -> ApiClient:
    """Return a client of the API server that options name.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`.
    timeout : float, optional
        Seconds without a byte after which a request has failed, in place of the default.

    Raises
    ------
    UsageError
        Options contradict each other.
    MoorageError
        The extra ``kube`` is not installed.
    """
    if options["in_cluster"] and (options["kubeconfig"] or options["context"]):
        raise click.UsageError("give either --in-cluster, or --kubeconfig and --context")
    from moorage.live.client import connect

    limit = {} if timeout is None else {"timeout": timeout}
    return connect(
        options["kubeconfig"], options["context"] or None, in_cluster=options["in_cluster"], **limit
    )


def listed_objects(options: Mapping[str, Any]) -> Listed:
    """Read the objects of the API server that options name; warn of what the user may not read.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options`, and ``with_metrics`` where metrics are asked for.
    """
    from moorage.kube.read.read_objects import Listed

    with connected(options) as client:
        from moorage.live.client.cluster_objects import list_cluster, server_version
        from moorage.store import ApiError

        named = f"--kubeconfig {options['kubeconfig']}" if options["kubeconfig"] else "API server"
        with located(ApiError, source=named):
            objects, warnings = list_cluster(client, options.get("with_metrics", False))
        version = server_version(client)
    print_warnings(warnings)
    return Listed("API server", objects, version)


def _sources(options: Mapping[str, Any]) -> Sequence[object]:
    return (*((None,) if names_server(options) else ()), *options["files"])


def _is_piped() -> bool:
    """Whether stdin is a file or a pipe, which a user has named."""
    with suppress(OSError, ValueError, AttributeError):
        mode = os.fstat(sys.stdin.fileno()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
    return False


def _files(options: Mapping[str, Any]) -> Sequence[str | Path | Listed]:
    if _sources(options) and options["synthetic"]:
        raise click.UsageError("--synthetic cannot be combined with -f or --kubeconfig")
    if not (_sources(options) or options["synthetic"]):
        if not _is_piped():
            raise click.UsageError("give the cluster with -f (- is standard input) or --kubeconfig")
        options = {**options, "files": ("-",)}
    from moorage.kube.read.python_values import file_named

    held = held_inputs()
    files: list[Any] = [
        (held[name].listed if name in held else None) or file_named(name) for name in options["files"]
    ]
    if names_server(options):
        files.insert(0, options.get("listed") or listed_objects(options))
    if options.get("hooks"):
        from moorage.kube.read.read_objects import WithHooks

        files.insert(0, WithHooks())
    plugins = options.get("enable_admission_plugins", ())
    disabled = options.get("disable_admission_plugins", ())
    if both := " ".join(name for name in plugins if name in disabled):
        raise click.UsageError(
            f"[{both}] in enable-admission-plugins and disable-admission-plugins overlapped; leave one out"
        )
    namespaces, classes = options.get("exempt") or ((), ())
    user, groups = options.get("as_user", ""), options.get("as_groups", ())
    if groups and not user:
        raise click.UsageError("--as-group is of a user: give --as, too")
    if plugins or disabled or namespaces or classes or user:
        from moorage.kube.model.meta import ObjectMeta
        from moorage.kube.model.policy import AdmissionPlugins

        exempt: dict[str, Any] = {"exempt_namespaces": namespaces, "exempt_runtime_classes": classes}
        switched: dict[str, Any] = {"plugins": plugins, "disabled_plugins": disabled}
        switched |= {"user": user, "groups": groups}
        files.append(AdmissionPlugins(metadata=ObjectMeta(name="plugins"), **switched, **exempt))
    return files


@contextmanager
def _naming_traces(files: Sequence[str]) -> Iterator[None]:
    """Say which command reads a file that cannot be loaded, if it is a trace."""
    try:
        yield
    except InputError as error:
        form = next((form for file in files if (form := _trace_format(file, error.source))), "")
        if not form:
            raise
        message = f"{error.message}; moorage replay --format {form} reads it"
        raise InputError(message, source=error.source, obj=error.obj, path=error.path) from None


def _trace_format(file: str, source: str) -> str:
    """Return the format of a file that an error is about, if it is a trace; "" otherwise."""
    from moorage.kube.read.files import YAML_SUFFIXES, has_suffix, source_name
    from moorage.sim.loaders.formats import recognized

    name = source_name(file)
    if file in held_inputs():
        return ""
    if source != name and not source.startswith(f"{name}:"):
        return ""
    with suppress(InputError):
        return "" if has_suffix(file, YAML_SUFFIXES) else recognized(file)
    return ""


def _reading(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("validate", "recursive", "like_siblings")
    return {name: options[name] for name in names} | {"namespace": options["namespace"] or "default"}


def _checked(cluster: Cluster, options: Mapping[str, Any], tells_refused: bool = True) -> Cluster:
    """Say that there is no node, and what the API server would refuse; determine which release decides;
    refuse a namespace that does not exist."""
    _tell_refused((refusal.text for refusal in cluster.refused_of_change), tells_refused)
    if "version" in options and cluster.release is None:
        from moorage.kube.read.deciding_release import deciding_release

        cluster.release = deciding_release(cluster, options["version"])
    if not cluster.nodes:
        cluster.warnings.insert(0, f"{NO_NODE}.")
    return _as_asked(cluster, options)


def _tell_refused(texts: Iterable[str], is_told: bool = True) -> None:
    """Let the command fail for what the API server refuses of a change, and tell it as errors."""
    for text in texts:
        click.get_current_context().meta[REFUSED] = True
        if is_told:
            print_message("error", with_hint(text))


def _as_asked(cluster: Cluster, options: Mapping[str, Any]) -> Cluster:
    """Fit what was loaded to a command: a namespace that does not exist is refused, with the server's text,
    and a command that shows metrics does not warn of files that have nothing else."""
    from moorage.kube.read.cluster_builder import ALWAYS_THERE

    if cluster.metrics and options.get("with_metrics"):
        from moorage.kube.read.read_objects import ONLY_METRICS

        cluster.warnings = [text for text in cluster.warnings if ONLY_METRICS not in text]
    exempt, _ = options.get("exempt") or ((), ())
    named = {"--namespace": filter(None, [options["namespace"]]), "--exempt": exempt}
    known = {namespace.name for namespace in cluster.namespaces} | ALWAYS_THERE
    for option, names in named.items():
        for name in names:
            if name not in known:
                near = nearest(name, known)
                raise InputError(f'namespaces "{name}" not found{near}', source=option)
    return cluster


gate_options = all_of(
    scheduler_option(
        "--feature-gates",
        "gates",
        metavar="A=true,B=false",
        multiple=True,
        callback=lambda _context, _option, given: ",".join(given),
        help="Feature gates of kube-scheduler that differ from their defaults; can be repeated.",
    ),
    scheduler_option(
        "--kubernetes-version",
        "version",
        type=ReleaseChoice(),
        help="The release of kube-scheduler to follow, the newest one a beta; default: the nearest to the "
        f"cluster's, or {DEFAULT}.",
    ),
)
"""Options for `selected_gates`."""


def plugins_option(text: str) -> Decorator:
    """Return the option ``--plugins``, with a help that ends with which of them take part."""
    return scheduler_option(
        "--plugins",
        metavar="FILE",
        help=f"A Python file with plugins in its variable `registry`{text}.",
    )


seed_option = scheduler_option(
    "--seed",
    type=WholeNumber(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed for random choices.",
)
scheduler_options = all_of(
    scheduler_option(
        "--config",
        metavar="FILE|-",
        help="A KubeSchedulerConfiguration; default: kube-scheduler's default profile.",
    ),
    plugins_option("; without --config, all of them are enabled"),
    gate_options,
    scheduler_option(
        "--percentage-of-nodes-to-score",
        "percentage",
        type=WholeNumber(0, 100),
        help="Stop the search for nodes when this percentage of all nodes is feasible; 0, the "
        "default, adapts to the size of the cluster.",
    ),
    tie_break_option("as the release does, go-heap since 1.35."),
    seed_option,
)


def asked_scheduler(options: Mapping[str, Any]) -> SchedulerSettings:
    """Return what options ask of a scheduler.

    Parameters
    ----------
    options : mapping of str to object
        The values of `scheduler_options`, and ``pod_times`` of a command whose changes move pods.
    """
    from moorage.answers.runs.loaded_cluster import SchedulerSettings
    from moorage.controllers import PodTimes

    names = ("gates", "version", "percentage", "tie_break", "seed")
    times = options.get("pod_times")
    start, ready, stop = times or (0, 0, 0)
    return SchedulerSettings(
        **{name: options[name] for name in names},
        **_asked_plugins(options["config"], options["plugins"]),
        pod_times=None if times is None else PodTimes(start=start, ready=ready, stop=stop),
    )


def _asked_plugins(config: str | None, file: str | None) -> dict[str, Any]:
    """Return the configuration, and the plugins that it may name; without one, all of a file are enabled."""
    if config is None and file is None:
        return {}
    from moorage.engine.framework.plugin_registry import Registry
    from moorage.sim.plugin_file import configuration_with, known_plugins, read_plugin_file

    given = Registry() if file is None else read_plugin_file(file)
    known = known_plugins(given)
    context = click.get_current_context(silent=True)
    if config == STDIN and context is not None and context.find_root().obj is not None:  # see `app.run`
        known = Registry(dict.fromkeys(known, _refuse_plugin))
    return {"config": configuration_with(given) if config is None else config, "registry": known}


def _refuse_plugin(*_arguments: object) -> Any:
    """Take the place of the plugins that the configuration of a request may not name."""
    raise InputError("a question names no policies or plugins; give serve twin a --config that does")


def scheduler_settings(options: Mapping[str, Any], cluster: Cluster | None = None) -> dict[str, Any]:
    """Return the keyword arguments of a `Scheduler`; see `asked_scheduler` and `SchedulerSettings.of`."""
    return asked_scheduler(options).of(cluster)


def _sizes(text: str) -> dict[str, int]:
    """Parse ``nodes=5000,pods=100``."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in ("nodes", "pods", "zones"):
            raise InputError("must be nodes, pods or zones", source="--synthetic", path=repr(name))
        if not re.fullmatch("[0-9]{1,9}", value):
            raise InputError(
                f"must be a whole number below 10^9, not {value!r}", source="--synthetic", path=name
            )
        sizes[name] = int(value)
    return sizes
