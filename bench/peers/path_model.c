// The minimal work of a router behind virtio rings: the reference that `forward` is measured against.
//
// One thread has both ends of the wire (generator and sink), the other one is the router; each has a CPU. Between them are two split
// rings in order (virtio 1.2, section 2.7 and feature VIRTIO_F_IN_ORDER), each buffer begins with a header of 12 octets, and both sides
// poll. The router checks a header, looks the route up (24 bits, one access), decrements the TTL, updates the checksum, and writes both
// addresses. Other work of a real router is missing from the model: no second direction, no notifications, no checks of data that a
// guest might write, no counters, no neighbours, and nothing else to check between two bursts.
//
// path_model SECONDS: prints packets a second, of 64 octets each.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ENTRIES = 1024, BURST = 64, BUFFERS = 4096, STRIDE = 2048, HEADER = 12, FRAME = 64, FLOWS = 256, AHEAD = 8 };
enum { RX, TX, RINGS };

struct descriptor { uint64_t address; uint32_t length; uint16_t flags, next; };
struct used { uint32_t id, length; };
// Areas of a ring, as virtio lays them out; the indices of the two sides are in cache lines of their own.
struct ring {
	_Alignas(4096) struct descriptor descriptors[ENTRIES];
	_Alignas(4096) _Atomic uint16_t available;
	_Alignas(4096) _Atomic uint16_t used_index;
	_Alignas(64) struct used used[ENTRIES];
};
struct memory {
	struct ring rings[RINGS];
	_Alignas(4096) uint8_t buffers[BUFFERS][STRIDE];
};
struct next_hop { uint8_t addresses[12]; };

static struct memory *memory;
static uint32_t *routes; // by the first 24 bits of the destination
static struct next_hop next_hops[256];
static uint8_t frames[FLOWS][FRAME];
static _Alignas(128) atomic_int stop;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int cpu) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set)) { perror("sched_setaffinity"); exit(1); }
}

static uint16_t load16(const void *at) { uint16_t value; memcpy(&value, at, 2); return value; }
static uint32_t load32(const void *at) { uint32_t value; memcpy(&value, at, 4); return value; }

static uint16_t folded(uint32_t sum) {
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static uint16_t sum_of_header(const uint8_t *frame) {
	uint32_t sum = 0;
	for (int i = 14; i < 34; i += 2) sum += load16(frame + i);
	return folded(sum);
}

// --- the router ---

struct driver { uint16_t available, taken; uint64_t shadow[ENTRIES]; };

static uint64_t pool[BUFFERS];
static int free_buffers;

static void post(struct driver *driver, struct ring *ring, uint64_t address, uint32_t length, uint16_t flags) {
	uint16_t at = driver->available++ % ENTRIES;
	ring->descriptors[at] = (struct descriptor){ .address = address, .length = length, .flags = flags };
	driver->shadow[at] = address;
}

static void refill(struct driver *driver, struct ring *ring) {
	while (free_buffers && (uint16_t)(driver->available - driver->taken) < ENTRIES)
		post(driver, ring, pool[--free_buffers], STRIDE, 2);
	atomic_store_explicit(&ring->available, driver->available, memory_order_release);
}

static void reclaim(struct driver *driver, struct ring *ring) {
	uint16_t done = atomic_load_explicit(&ring->used_index, memory_order_acquire);
	while (driver->taken != done) pool[free_buffers++] = driver->shadow[driver->taken++ % ENTRIES];
}

// Returns true if a frame is an IPv4 packet whose TTL does not expire.
static int is_routed(const uint8_t *frame) {
	return load16(frame + 12) == 0x0008 && frame[14] == 0x45 && frame[22] > 1;
}

static void forward(uint8_t *frame, uint32_t route) {
	frame[22]--;
	uint32_t sum = load16(frame + 24) + 1u;
	uint16_t mended = (uint16_t)(sum + (sum >> 16));
	memcpy(frame + 24, &mended, 2);
	memcpy(frame, next_hops[route & 255].addresses, 12);
}

static void *router(void *nothing) {
	static struct driver receive, transmit;
	struct ring *in = &memory->rings[RX], *out = &memory->rings[TX];
	uint64_t burst[BURST];
	uint32_t place[BURST];
	pin(1);
	for (int i = 0; i < BUFFERS; i++) pool[free_buffers++] = (uint64_t)memory->buffers[i];
	refill(&receive, in);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint16_t came = atomic_load_explicit(&in->used_index, memory_order_acquire) - receive.taken;
		int n = came < BURST ? came : BURST, kept = 0;
		if (!n) continue;
		for (int i = 0; i < n; i++) {
			burst[i] = receive.shadow[receive.taken++ % ENTRIES];
			__builtin_prefetch((void *)(burst[i] + HEADER), 1);
		}
		for (int i = 0; i < n; i++) {
			uint8_t *frame = (uint8_t *)burst[i] + HEADER;
			place[i] = is_routed(frame) ? __builtin_bswap32(load32(frame + 30)) >> 8 : 0;
			__builtin_prefetch(&routes[place[i]]);
		}
		if ((uint16_t)(transmit.available - transmit.taken) + n > ENTRIES || free_buffers < BUFFERS / 4) reclaim(&transmit, out);
		for (int i = 0; i < n; i++) {
			if (!place[i] || (uint16_t)(transmit.available - transmit.taken) >= ENTRIES) {
				pool[free_buffers++] = burst[i];
				continue;
			}
			forward((uint8_t *)burst[i] + HEADER, routes[place[i]]);
			memset((void *)burst[i], 0, HEADER);
			post(&transmit, out, burst[i], HEADER + FRAME, 0);
			kept++;
		}
		if (kept) atomic_store_explicit(&out->available, transmit.available, memory_order_release);
		refill(&receive, in);
	}
	return nothing;
}

// --- the wire ---

struct device { uint16_t taken; };

static int generate(struct device *device, struct ring *ring) {
	static unsigned flow;
	uint16_t posted = atomic_load_explicit(&ring->available, memory_order_acquire) - device->taken;
	int n = posted < BURST ? posted : BURST;
	for (int i = 0; i < n; i++)
		__builtin_prefetch((void *)(ring->descriptors[(uint16_t)(device->taken + i) % ENTRIES].address + HEADER), 1);
	for (int i = 0; i < n; i++) {
		uint16_t at = device->taken++ % ENTRIES;
		uint8_t *buffer = (uint8_t *)ring->descriptors[at].address;
		static const uint8_t header[HEADER] = { [10] = 1 };
		memcpy(buffer, header, HEADER);
		memcpy(buffer + HEADER, frames[flow++ % FLOWS], FRAME);
		ring->used[at] = (struct used){ .id = at, .length = HEADER + FRAME };
	}
	if (n) atomic_store_explicit(&ring->used_index, device->taken, memory_order_release);
	return n;
}

static int take(struct device *device, struct ring *ring, unsigned *bad) {
	uint16_t sent = atomic_load_explicit(&ring->available, memory_order_acquire) - device->taken;
	int n = sent < BURST ? sent : BURST;
	for (int i = 0; i < n; i++)
		__builtin_prefetch((void *)(ring->descriptors[(uint16_t)(device->taken + i) % ENTRIES].address + HEADER));
	for (int i = 0; i < n; i++) {
		struct descriptor *d = &ring->descriptors[device->taken++ % ENTRIES];
		uint8_t *frame = (uint8_t *)d->address + HEADER;
		if (d->length != HEADER + FRAME || frame[22] != 63 || frame[0] != 2 || sum_of_header(frame) != 0xffff) ++*bad;
	}
	if (n) {
		ring->used[(uint16_t)(device->taken - 1) % ENTRIES].id = (uint16_t)(device->taken - 1) % ENTRIES;
		atomic_store_explicit(&ring->used_index, device->taken, memory_order_release);
	}
	return n;
}

static void make_frames(void) {
	for (int flow = 0; flow < FLOWS; flow++) {
		uint8_t *f = frames[flow];
		static const uint8_t start[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xaa, 8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2 };
		memcpy(f, start, sizeof start);
		f[30] = 198, f[31] = 18, f[32] = 1 + flow % 100, f[33] = flow;
		f[35] = 7, f[37] = 9, f[39] = 30;
		uint16_t sum = ~sum_of_header(f);
		memcpy(f + 24, &sum, 2);
	}
}

static void *allocate(size_t octets, int huge) {
	void *at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0), -1, 0);
	if (at == MAP_FAILED) { perror("mmap (huge pages?)"); exit(1); }
	return at;
}

int main(int count, char **words) {
	double seconds = count > 1 ? atof(words[1]) : 1;
	memory = allocate((sizeof *memory + (2u << 20) - 1) & ~((2u << 20) - 1), 1);
	memset(memory, 0, sizeof *memory);
	routes = allocate((1u << 24) * sizeof *routes, 1);
	for (uint32_t i = 0; i < 1u << 24; i++) routes[i] = i % 251;
	for (int i = 0; i < 256; i++) memcpy(next_hops[i].addresses, (uint8_t[]){ 2, 0, 0, 0, 1, i, 2, 0, 0, 0, 2, 1 }, 12);
	make_frames();
	pthread_t thread;
	if (pthread_create(&thread, NULL, router, NULL)) { perror("pthread_create"); return 1; }
	pin(0);
	struct device near = { 0 }, far = { 0 };
	unsigned long packets = 0;
	unsigned bad = 0;
	double warm = now() + 0.1, begin = 0, end = 0;
	for (double at = now(); !end || at < end; at = now()) {
		if (!end && at >= warm) begin = at, end = at + seconds, packets = 0;
		for (int i = 0; i < 256; i++) generate(&near, &memory->rings[RX]), packets += take(&far, &memory->rings[TX], &bad);
	}
	double took = now() - begin;
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	if (bad) { fprintf(stderr, "%u bad frames\n", bad); return 1; }
	printf("%.0f\n", packets / took);
	return 0;
}
