/* A machine whose disk is full for a while, and whose clock is set, as its processes see it. Built and
   preloaded by world.py, which has the file of two numbers that says so: by how many milliseconds the
   clock is wrong, and whether files of a store may still grow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t right[2], *world = right;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_WORLD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *there = mmap(NULL, sizeof right, PROT_READ, MAP_SHARED, file, 0);
    if (there != MAP_FAILED) world = there;
    close(file);
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, name)

/* --- its clock --- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int answer = real(clock, now);
    if (answer || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return answer;
    int64_t more = world[0];
    now->tv_sec += more / 1000;
    now->tv_nsec += more % 1000 * 1000000;
    if (now->tv_nsec < 0) now->tv_nsec += 1000000000, now->tv_sec--;
    if (now->tv_nsec >= 1000000000) now->tv_nsec -= 1000000000, now->tv_sec++;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    return now ? *now = exact.tv_sec : exact.tv_sec;
}

/* --- its disk --- */

/* Whether a store's file would have to grow for this; what it has already can be written. */
static int is_full(int file, int64_t end) {
    char link[64], path[512];
    struct stat is;
    if (!world[1]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, "/app.db") && !strstr(path, "/pg_wal/") && !strstr(path, "/base/")) return 0;
    if (fstat(file, &is) || end <= is.st_size) return 0;
    errno = ENOSPC;
    return 1;
}

static int64_t length_of(const struct iovec *parts, int count) {
    int64_t sum = 0;
    for (int n = 0; n < count; n++) sum += parts[n].iov_len;
    return sum;
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return is_full(file, at + size) ? -1 : real(file, data, size, at);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return pwrite64(file, data, size, at); }

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) {
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t);
    return is_full(file, at + length_of(parts, count)) ? -1 : real(file, parts, count, at);
}
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    return pwritev64(file, parts, count, at);
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return world[1] && is_full(file, lseek(file, 0, SEEK_CUR) + size) ? -1 : real(file, data, size);
}

int posix_fallocate64(int file, off64_t at, off64_t size) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    return is_full(file, at + size) ? ENOSPC : real(file, at, size);
}
int posix_fallocate(int file, off_t at, off_t size) { return posix_fallocate64(file, at, size); }
