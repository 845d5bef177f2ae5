/* A host whose clock is set, and whose disk gets slow, while programs run.
 *
 * Loaded before libc (LD_PRELOAD). The file $FAULTY_HOST holds two numbers of 64 bits, which count from the moment they
 * are written: by how many seconds CLOCK_REALTIME is off, and how many milliseconds each write to a file and each flush
 * take more. The kernel's own clock is not set: what waits until a moment of CLOCK_REALTIME is given that of the kernel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* A deadline before this (s) is one of a clock that counts from the machine's start. */
#define EPOCHAL 1000000000L

static const volatile int64_t *control;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("FAULTY_HOST");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 2 * sizeof *control, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) control = found;
    close(file);
}

static long step(void) { return control ? control[0] : 0; }

static void drag(int file) {
    long delay = control ? control[1] : 0;
    struct stat about;
    if (delay == 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return;
    struct timespec pause = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* libc has older versions of some, which dlsym may give. */
static void *libc(const char *name, const char *version) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

#define REAL(type, name, version, ...)                                   \
    static type (*real)(__VA_ARGS__);                                    \
    if (!real) real = (type(*)(__VA_ARGS__))libc(#name, version)

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, clock_gettime, NULL, clockid_t, struct timespec *);
    int answer = real(clock, now);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
    return answer;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int answer = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return answer;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

static struct timespec kernels(const struct timespec *until) {
    struct timespec moment = *until;
    if (moment.tv_sec > EPOCHAL) moment.tv_sec -= step();
    return moment;
}

int pthread_cond_timedwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    REAL(int, pthread_cond_timedwait, "GLIBC_2.3.2", pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec moment = kernels(until);
    return real(one, mutex, &moment);
}

int cnd_timedwait(cnd_t *restrict one, mtx_t *restrict mutex, const struct timespec *restrict until) {
    REAL(int, cnd_timedwait, NULL, cnd_t *, mtx_t *, const struct timespec *);
    struct timespec moment = kernels(until);
    return real(one, mutex, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    REAL(int, pthread_mutex_timedlock, NULL, pthread_mutex_t *, const struct timespec *);
    struct timespec moment = kernels(until);
    return real(mutex, &moment);
}

int sem_timedwait(sem_t *restrict one, const struct timespec *restrict until) {
    REAL(int, sem_timedwait, NULL, sem_t *, const struct timespec *);
    struct timespec moment = kernels(until);
    return real(one, &moment);
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, write, NULL, int, const void *, size_t);
    drag(file);
    return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, NULL, int, const struct iovec *, int);
    drag(file);
    return real(file, parts, count);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    REAL(ssize_t, pwrite64, NULL, int, const void *, size_t, off64_t);
    drag(file);
    return real(file, data, size, place);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) { return pwrite64(file, data, size, place); }

int fsync(int file) {
    REAL(int, fsync, NULL, int);
    drag(file);
    return real(file);
}

int fdatasync(int file) {
    REAL(int, fdatasync, NULL, int);
    drag(file);
    return real(file);
}
