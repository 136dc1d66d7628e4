/* Writes down what a process does to files named power.db…, so that the moment of a power cut can be
   chosen afterwards. Built and preloaded by power.py. A record in the log is a header and its data:

     W  bytes written at a place      B  a sync begins      T  the file has this length now
     U  the file is gone              S  it has ended       (A, by the program: it was told so) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct header { char kind, pad[3]; int32_t thread; int64_t at, size; char name[24]; };

static int log_file = -1;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_LOG");
    if (path) log_file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

/* The last part of a path, if it is one of ours; -shm holds nothing that must last. */
static const char *ours(const char *path) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return !strncmp(name, "power.db", 8) && !strstr(name, "-shm") ? name : NULL;
}

static const char *name_of(int file, char *room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = log_file < 0 ? -1 : readlink(link, room, 511);
    if (length < 0) return NULL;
    room[length] = 0;
    return ours(room);
}

static void note(char kind, const char *name, int64_t at, int64_t size, const void *data) {
    struct header head = {.kind = kind, .thread = syscall(SYS_gettid), .at = at, .size = size};
    strncpy(head.name, name, sizeof head.name - 1);
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, data ? (size_t)size : 0}};
    if (writev(log_file, parts, 2) < 0) abort();
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, name)
#define NOTED(call, kind, at, size, data) \
    char room[512]; const char *name = name_of(file, room); \
    if (!name) return call; \
    pthread_mutex_lock(&turn); \
    __typeof__(call) answer = call; \
    if (answer >= 0) note(kind, name, at, size, data); \
    pthread_mutex_unlock(&turn); \
    return answer

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    NOTED(real(file, data, size, at), 'W', at, answer, data);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return pwrite64(file, data, size, at); }

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    off_t at = lseek(file, 0, SEEK_CUR);
    NOTED(real(file, data, size), 'W', at, answer, data);
}

int ftruncate64(int file, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    NOTED(real(file, size), 'T', size, 0, NULL);
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

static int synced(int file, int (*real)(int)) {
    char room[512];
    const char *name = name_of(file, room);
    if (name) note('B', name, 0, 0, NULL);
    int answer = real(file);
    if (name && !answer) note('S', name, 0, 0, NULL);
    return answer;
}
int fsync(int file) { REAL(int, "fsync", int); return synced(file, real); }
int fdatasync(int file) { REAL(int, "fdatasync", int); return synced(file, real); }

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    const char *name = log_file < 0 ? NULL : ours(path);
    int answer = real(path);
    if (name && !answer) note('U', name, 0, 0, NULL);
    return answer;
}
