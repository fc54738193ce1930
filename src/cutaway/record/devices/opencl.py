"""OpenCL: our layer is put in front of the driver by the OpenCL loader, in any program."""

from __future__ import annotations

from cutaway.record.devices import library


def environment(present: dict[str, str]) -> dict[str, str]:
    """OPENCL_LAYERS with our layer behind those that are there already (the last one is nearest to the program)."""
    ours = str(library.path())
    others = [layer for layer in present.get("OPENCL_LAYERS", "").split(":") if layer and layer != ours]
    return {"OPENCL_LAYERS": ":".join([*others, ours])}


def came_too_late() -> bool:
    """Whether the OpenCL loader has read its settings already, without our layer among them."""
    maps = library.mapped()
    return "libOpenCL" in maps and "libcutaway_devices.so" not in maps
