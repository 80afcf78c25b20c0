"""Who may import whom, and what `import noisewise` may load."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "noisewise"
STAGES = {"priors", "simulators", "queries", "mechanisms"}
COMMON = {"errors", "_core", "_compile"}

PUBLIC_MODULES = {"supports"}
TOP = {"problems", "cli", "__main__"}
BELOW_PRIVACY = {"estimators", "samplers"}
PRIVACY = {
    "queries",
    "mechanisms",
    "model",
    "disclosure",
    "audit",
    "inference",
    "automatic",
    "posteriors",
    "assessment",
    "diagnostics",
    "planning",
    "regressions",
    "reports",
}
ABOVE_INFERENCE = TOP | {
    "automatic",
    "inference",
    "posteriors",
    "diagnostics",
    "plotting",
    "runs",
    "metrics",
    "regressions",
    "reports",
    "planning",
}


def component(path):
    """The part of the package that a file belongs to: a folder, or a module beside the folders."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported(source, package=()):
    """The parts of noisewise that a source imports; "" stands for the whole of it. `package` is
    where it lies.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["noisewise", *package][: len(package) + 2 - node.level] if node.level else []
            stem = base + (node.module.split(".") if node.module else [])
            names = [[*stem, alias.name] for alias in node.names]
        else:
            continue
        yield from (name[1] if len(name) > 1 else "" for name in names if name[0] == "noisewise")


def forbidden(part, other):
    """Why `part` may not import `other`; None if it may."""
    if other == part:
        return None
    if other == "":
        return "import what is needed, not the whole package"
    if part in STAGES and other not in COMMON:
        return "the four stages stand on errors and the common private modules alone"
    if part in BELOW_PRIVACY and other in PRIVACY | TOP:
        return "estimators and samplers know nothing of privacy"
    if other in TOP and part not in TOP:
        return "problems and the command line are on top"
    if other == "inference" and part not in ABOVE_INFERENCE:
        return "inference sits above the stages and the model"
    return None


def violations(part, source, package=()):
    found = ((other, forbidden(part, other)) for other in imported(source, package))
    return [f"{part} imports noisewise.{other}: {reason}" for other, reason in found if reason]


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    package = path.relative_to(PACKAGE).parts[:-1]
    assert violations(component(path), path.read_text(), package) == []


PLANTED = {
    "from": ("simulators", "from noisewise.queries.base import AbstractQuery"),
    "module": ("simulators", "from noisewise import queries"),
    "plain": ("queries", "import noisewise.mechanisms.laplace"),
    "inside a function": ("priors", "def f():\n    from noisewise.simulators import JaxSimulator"),
    "relative": ("mechanisms", "from ..queries import base"),
    "for types only": (
        "mechanisms",
        "if TYPE_CHECKING:\n    from noisewise.priors.prior import Prior",
    ),
    "the whole package": ("queries", "import noisewise as nw"),
    "upwards": ("queries", "from noisewise.model.private_model import PrivateModel"),
    "a sampler that knows of privacy": ("samplers", "from noisewise.mechanisms import Laplace"),
    "a model that knows its problems": ("model", "from noisewise.problems import sir"),
    "a mechanism that infers": ("audit", "from noisewise.inference import ExactSMC"),
}


@pytest.mark.parametrize("name", PLANTED, ids=str)
def test_wrong_imports_are_caught(name):
    part, source = PLANTED[name]
    assert violations(part, source, (part,))


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (
            "simulators",
            (
                "from noisewise.errors import SimulationError\nfrom noisewise.simulators import"
                " _compiled"
            ),
        ),
        ("priors", "from noisewise._core.files import reading"),
        ("queries", "from .base import AbstractQuery\nimport numpy as np"),
        ("model", "from noisewise.queries import as_query"),
        ("cli", "from noisewise.problems import sir"),
    ],
)
def test_right_imports_pass(part, source):
    assert violations(part, source, (part,)) == []


HEAVY = {
    "jax",
    "numpyro",
    "equinox",
    "scipy",
    "matplotlib",
    "arviz",
    "numba",
    "opendp",
    "pandas",
    "blackjax",
    "pyarrow",
    "flowjax",
}


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return HEAVY & set(result.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import noisewise",
        "import noisewise.simulators",
        "import noisewise.errors",
        "import noisewise.readers; noisewise.readers.read",
    ],
)
def test_importing_loads_nothing_heavy(statement):
    assert loaded_by(statement) == set()


def test_models_load_neither_plots_nor_releases():
    statement = "import noisewise as nw; nw.Prior, nw.PrivateModel, nw.simulators.PythonSimulator"
    loaded = loaded_by(statement)
    assert "jax" in loaded
    assert not loaded & {"matplotlib", "arviz", "numba", "opendp", "pandas", "blackjax", "flowjax"}


def test_importing_leaves_jaxs_precision_alone():
    code = "import jax, noisewise as nw; nw.PrivateModel; assert not jax.config.jax_enable_x64"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_exists_or_is_named():
    import noisewise as nw

    assert set(nw.__all__) <= set(dir(nw))
    with pytest.raises(AttributeError, match="Prior"):
        _ = nw.no_such_name
    with pytest.raises(AttributeError, match="JaxSimulator"):
        _ = nw.simulators.no_such_name
    assert all(
        getattr(nw.simulators, name).__name__ == name
        for name in ("JaxSimulator", "PythonSimulator")
    )


@pytest.mark.parametrize("folder", sorted(path.parent for path in PACKAGE.glob("*/__init__.py")))
def test_no_module_takes_the_place_of_a_public_name(folder):
    """A module named as a function of its package would become the attribute once it is loaded."""
    package = importlib.import_module(f"noisewise.{folder.name}")
    names = set(getattr(package, "__all__", ())) & {path.stem for path in folder.glob("*.py")}
    for name in names - PUBLIC_MODULES:
        importlib.import_module(f"noisewise.{folder.name}.{name}")
        assert not inspect.ismodule(getattr(package, name)), name
