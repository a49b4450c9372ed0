/* A stand-in for libnvidia-ml.so.1, written from the declarations in nvml.h, for tests without a card:
 * GPU 0 is whole, GPU 1 is cut into two MIG instances, GPU 2 has fallen off the bus.
 * With -DOLD it is an old driver: no second memory structure, no MIG, no row remapping, version 2 of the process lists.
 * With -DMISMATCH it refuses to start as after an upgrade without a reboot. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { int index; int instance; } device;
static device cards[3] = {{0, -1}, {1, -1}, {2, -1}};
static device slices[2] = {{1, 5}, {1, 9}};

typedef struct { unsigned long long total, free, used; } memory1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned gpu, memory; } rates;

#define MIB (1024ull * 1024ull)

#ifdef MISMATCH
int nvmlInit_v2(void) { return 18; }
#else
int nvmlInit_v2(void) { return 0; }
#endif
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "590.44.01"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13010; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device **d) {
    if (i == 2) return 15;
    *d = &cards[i];
    return 0;
}
int nvmlDeviceGetName(device *d, char *out, unsigned n) { snprintf(out, n, "NVIDIA Fake %d", d->index); return 0; }
int nvmlDeviceGetUUID(device *d, char *out, unsigned n) {
    snprintf(out, n, d->instance < 0 ? "GPU-%d" : "MIG-%d-%d", d->index, d->instance);
    return 0;
}
int nvmlDeviceGetMemoryInfo(device *d, memory1 *m) {
    m->total = 81920 * MIB; m->used = 10740 * MIB; m->free = 71180 * MIB;
    return 0;
}
int nvmlDeviceGetUtilizationRates(device *d, rates *r) { r->gpu = 93; r->memory = 40; return 0; }
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *t) { *t = 61; return 0; }

/* 200 processes do not fit where the caller first makes room: it must come back with more. The last hides its amount. */
static int compute(device *d, unsigned *n, process *p) {
    unsigned have = d->index == 0 ? 200 : 1;
    if (*n < have) { *n = have; return 7; }
    *n = have;
    for (unsigned i = 0; i < have; i++) {
        memset(&p[i], 0, sizeof p[i]);
        p[i].pid = 100 + i;
        p[i].used = 50 * MIB;
    }
    if (d->index == 0) p[have - 1].used = ~0ull;
    return 0;
}
/* PID 100 also draws, and holds more in this list; the larger amount counts, not the sum. */
static int graphics(device *d, unsigned *n, process *p) {
    if (d->index != 0) { *n = 0; return 0; }
    *n = 1;
    memset(p, 0, sizeof *p);
    p->pid = 100;
    p->used = 80 * MIB;
    return 0;
}

#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned *n, process *p) { return compute(d, n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(device *d, unsigned *n, process *p) { return graphics(d, n, p); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *n, process *p) { return compute(d, n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *n, process *p) { return graphics(d, n, p); }
int nvmlDeviceGetMemoryInfo_v2(device *d, memory2 *m) {
    if (m->version != (sizeof(memory2) | 2u << 24)) return 25;
    m->total = 81920 * MIB; m->reserved = 600 * MIB; m->used = 10140 * MIB; m->free = 71180 * MIB;
    return 0;
}
int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *later) { *now = *later = d->index == 1; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned i, device **out) {
    if (i != 0 && i != 3) return 6;
    *out = &slices[i == 3];
    return 0;
}
int nvmlDeviceGetGpuInstanceId(device *d, unsigned *id) { *id = d->instance; return 0; }
int nvmlDeviceGetPersistenceMode(device *d, unsigned *on) { *on = 0; return 0; }
int nvmlDeviceGetComputeMode(device *d, unsigned *mode) { *mode = 3; return 0; }
int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
int nvmlDeviceGetEccMode(device *d, unsigned *now, unsigned *later) { *now = *later = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(device *d, int type, int counter, unsigned long long *n) { *n = type == 1 && counter == 0 ? 2 : 77; return 0; }
int nvmlDeviceGetRemappedRows(device *d, unsigned *c, unsigned *u, unsigned *pending, unsigned *failure) {
    *c = 0; *u = 1; *pending = 1; *failure = 0;
    return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device *d, unsigned *on) { return 3; }
#endif
