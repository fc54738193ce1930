// Properties of the GPUs, for occupancy: asked of the driver once it is in use, from a thread of
// the program.
#pragma once

namespace cutaway::cupti {

// Writes a log "device" line for each GPU, once. Does nothing while the driver is not initialised:
// initialising it here would make a later fork of the program fail.
void describe_devices();

}  // namespace cutaway::cupti
