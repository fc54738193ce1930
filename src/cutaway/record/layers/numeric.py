"""Layer native: compiled libraries that are neither simulator nor ML backend: NumPy, SciPy, OpenCV.

NumPy is called hundreds of times in a step, almost always with a few numbers. Only calls that are given large arrays are
recorded; the others pass with a look at their arguments. Random numbers and SciPy are recorded when they take 2 µs.
"""

from __future__ import annotations

from types import BuiltinFunctionType, ModuleType

from cutaway import _recorder
from cutaway.record import layers
from cutaway.record.imports import Any

LAYER = "native"
LARGE = 12  # 4,096 elements: an addition takes about a microsecond
LARGE_MATRIX = 9  # of 22 by 22: a product takes as long

_PRODUCTS = (
    "dot inner vdot c_einsum correlate correlate2 matmul vecdot matvec vecmat".split()
)
_FUNCTIONS = (
    "array asarray asanyarray ascontiguousarray copyto concatenate where putmask lexsort count_nonzero bincount interp "
    "packbits unpackbits fromiter"
).split()
_METHODS = (
    "argmax argmin argpartition argsort astype byteswap clip compress conj copy cumprod cumsum diagonal dot fill flatten "
    "nonzero partition put ravel repeat round searchsorted sort take tobytes tolist trace"
).split()
_REDUCTIONS = ("reduce", "accumulate", "reduceat", "outer", "at")


def _apply_numpy(numpy: Any) -> None:
    core = getattr(numpy, "_core", None) or numpy.core
    native = core._multiarray_umath
    _recorder.patch_arrays(
        numpy.ndarray, "ndarray", LAYER, LARGE, ("__getitem__", "__setitem__")
    )
    for name, value in list(vars(native).items()):
        if name in _PRODUCTS:
            least = LARGE_MATRIX
        else:
            least = LARGE
        if isinstance(value, numpy.ufunc) or name in _FUNCTIONS or name in _PRODUCTS:
            _recorder.patch_sized(value, f"numpy.{value.__name__}", LAYER, least)
    for name in _METHODS:
        if name in vars(numpy.ndarray):
            _recorder.patch_sized(
                vars(numpy.ndarray)[name], f"ndarray.{name}", LAYER, LARGE
            )
    for name in _REDUCTIONS:
        _recorder.patch_sized(vars(numpy.ufunc)[name], f"ufunc.{name}", LAYER, LARGE)
    for value in list(
        vars(core._methods).values()
    ):  # bound before we came: ndarray.sum calls add.reduce
        if isinstance(value, BuiltinFunctionType) and isinstance(
            value.__self__, numpy.ufunc
        ):
            _recorder.patch_sized(
                value, f"numpy.{value.__self__.__name__}.{value.__name__}", LAYER, LARGE
            )


def _apply_linalg(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if type(value).__name__ == "ufunc":
            _recorder.patch_sized(value, f"numpy.linalg.{name}", LAYER, LARGE_MATRIX)


def _apply_long(module: ModuleType) -> None:
    """Functions, ufuncs and methods that are worth a record when they take long."""
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            for method, function in layers.methods(value):
                if not method.startswith("_"):
                    _recorder.patch_wait(
                        function, f"{module.__name__}.{name}.{method}", "", LAYER
                    )
        elif layers.is_native(value) and not name.startswith("__"):
            _recorder.patch_wait(
                layers.native_part(value), f"{module.__name__}.{name}", "", LAYER
            )


def _apply_fortran(module: ModuleType) -> None:
    """LAPACK and BLAS by f2py: all routines are objects of one type."""
    for value in list(vars(module).values()):
        if type(value).__name__ == "fortran":
            _recorder.patch_type(
                type(value), "scipy.linalg.lapack", LAYER, ("__call__",)
            )
            return


def _apply_opencv(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if isinstance(value, BuiltinFunctionType) and name[:1].islower():
            _recorder.patch(value, f"cv2.{name}", LAYER)


_LONG = (
    "numpy.random._generator numpy.random.mtrand numpy.fft._pocketfft_umath scipy.linalg._batched_linalg "
    "scipy.signal._sigtools scipy.ndimage._nd_image scipy.sparse._sparsetools scipy.fft._pocketfft.pypocketfft"
).split()
MODULES = {
    "numpy": _apply_numpy,
    "numpy.linalg._umath_linalg": _apply_linalg,
    "scipy.linalg._flapack": _apply_fortran,
    "cv2": _apply_opencv,
    **dict.fromkeys(_LONG, _apply_long),
}
