/* Makes the n-th call of a class fail, or kills the process at it.
 *
 * Preloaded into a daemon and all that it starts. The control block is a file that all of them and the harness map, so
 * that calls are counted over all processes, and a fault can be armed while the daemon runs. Only files below `root`
 * and sockets are counted; until the harness arms the block, nothing is.
 *
 * FAULTS_CONTROL: the file of the control block. FAULTS_ENABLE: count from the start (else after faults_enable()).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, SYNC, TRUNCATE, RENAME, UNLINK, MKDIR, STAT, CHMOD, LOCK, MMAP,
       SOCKET, BIND, LISTEN, ACCEPT, CONNECT, RECV, SEND, POLL, CLASSES };  /* as CLASSES in shim.py */
enum { OFF, COUNT, FIRE };
enum { FAIL, SHORT, KILL, KILL_AFTER, TORN };  /* as ACTIONS in shim.py */
enum { NO_FD, FILE_FD, SOCKET_FD };
#define MOST_FDS 16384
#define TEXT 124
#define LOG 16384

struct control {
    _Atomic uint32_t state;
    uint32_t klass, nth, times, action;
    int32_t error;
    _Atomic uint32_t fired;
    _Atomic uint32_t counts[CLASSES];
    char root[256];
    char place[TEXT];  /* of the call that failed */
    _Atomic uint32_t logged;
    struct { uint32_t klass; char text[TEXT]; } log[LOG];
};

static struct control *control;
static int enabled;
static unsigned char kinds[MOST_FDS];
static char names[MOST_FDS][TEXT - 20];

void faults_enable(void) { enabled = 1; }

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("FAULTS_CONTROL");
    if (!path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *block = (void *)syscall(SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (block == MAP_FAILED) return;
    control = block;
    enabled = getenv("FAULTS_ENABLE") != NULL;
}

static int ours(const char *path) {
    if (!control || !enabled || !path || !control->root[0]) return 0;
    size_t length = strlen(control->root);
    return !strncmp(path, control->root, length) && (path[length] == '/' || !path[length]);
}

static int kind(int fd) { return control && enabled && fd >= 0 && fd < MOST_FDS ? kinds[fd] : NO_FD; }

static void mark(int fd, int as, const char *name) {
    if (fd < 0 || fd >= MOST_FDS) return;
    kinds[fd] = (unsigned char)as;
    snprintf(names[fd], sizeof names[fd], "%s", name);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a call. Returns -1 to let it through, else the action to take. KILL does not return. */
static int hit(int klass, const char *call, const char *name) {
    if (!control || !enabled) return -1;
    uint32_t state = atomic_load(&control->state);
    if (state == OFF) return -1;
    uint32_t number = atomic_fetch_add(&control->counts[klass], 1) + 1;
    if (state == COUNT) {
        uint32_t at = atomic_fetch_add(&control->logged, 1);
        if (at < LOG) {
            control->log[at].klass = (uint32_t)klass;
            snprintf(control->log[at].text, TEXT, "%s %s", call, name);
        }
        return -1;
    }
    if ((uint32_t)klass != control->klass || number < control->nth || number >= control->nth + control->times) return -1;
    if (!atomic_fetch_add(&control->fired, 1)) snprintf(control->place, TEXT, "%s %s", call, name);
    if (control->action == KILL) die();
    if (control->action == FAIL) errno = control->error;
    return (int)control->action;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* A call that is done whole, fails, or is followed by the end of the process. */
#define PLAIN(klass, is_ours, name, call, failed) do { \
    int act = (is_ours) ? hit(klass, __func__, name) : -1; \
    if (act == FAIL) return failed; \
    __auto_type result = (call); \
    if (act == KILL_AFTER || act == TORN) die(); \
    return result; } while (0)

/* A call that moves `size` bytes, perhaps fewer. */
#define MOVING(is_file, size, call_of) do { \
    int as = kind(fd); \
    int act = as == FILE_FD ? hit(is_file, __func__, names[fd]) \
            : as == SOCKET_FD ? hit(is_file == READ ? RECV : SEND, __func__, names[fd]) : -1; \
    if (act == FAIL) return -1; \
    size_t moved = (act == SHORT || act == TORN) && (size) > 1 ? (size) / 2 : (size); \
    ssize_t result = call_of(moved); \
    if (act == KILL_AFTER || act == TORN) die(); \
    return result; } while (0)

#define MODE mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }

static int opened(int fd, const char *path) {
    if (fd >= 0 && enabled) mark(fd, ours(path) ? FILE_FD : NO_FD, path);
    return fd;
}

#define OPENS(name) int name(const char *path, int flags, ...) { \
    REAL(name); MODE \
    PLAIN(OPEN, ours(path), path, opened(real(path, flags, mode), path), -1); }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name) int name(int folder, const char *path, int flags, ...) { \
    REAL(name); MODE \
    PLAIN(OPEN, ours(path), path, opened(real(folder, path, flags, mode), path), -1); }
OPENS_AT(openat)
OPENS_AT(openat64)
DIR *opendir(const char *path) { REAL(opendir); PLAIN(OPEN, ours(path), path, real(path), NULL); }
int close(int fd) { REAL(close); if (fd >= 0 && fd < MOST_FDS) kinds[fd] = NO_FD; return real(fd); }

#define CALL(n) real(fd, buffer, n)
ssize_t read(int fd, void *buffer, size_t size) { REAL(read); MOVING(READ, size, CALL); }
ssize_t write(int fd, const void *buffer, size_t size) { REAL(write); MOVING(WRITE, size, CALL); }
#undef CALL
#define CALL(n) real(fd, buffer, n, offset)
ssize_t pread(int fd, void *buffer, size_t size, off_t offset) { REAL(pread); MOVING(READ, size, CALL); }
ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset) { REAL(pread64); MOVING(READ, size, CALL); }
ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset) { REAL(pwrite); MOVING(WRITE, size, CALL); }
ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t offset) { REAL(pwrite64); MOVING(WRITE, size, CALL); }
#undef CALL
#define CALL(n) real(fd, buffer, n, flags)
ssize_t recv(int fd, void *buffer, size_t size, int flags) { REAL(recv); MOVING(READ, size, CALL); }
ssize_t send(int fd, const void *buffer, size_t size, int flags) { REAL(send); MOVING(WRITE, size, CALL); }
#undef CALL
#define CALL(n) ((void)(n), real(fd, message, flags))
ssize_t recvmsg(int fd, struct msghdr *message, int flags) { REAL(recvmsg); MOVING(READ, 1, CALL); }
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) { REAL(sendmsg); MOVING(WRITE, 1, CALL); }
#undef CALL
#define CALL(n) ((void)(n), real(fd, parts, count))
ssize_t readv(int fd, const struct iovec *parts, int count) { REAL(readv); MOVING(READ, 1, CALL); }
ssize_t writev(int fd, const struct iovec *parts, int count) { REAL(writev); MOVING(WRITE, 1, CALL); }

#define OF_FILE(klass, call, failed) \
    PLAIN(klass, kind(fd) == FILE_FD, kind(fd) == FILE_FD ? names[fd] : "", call, failed)
int fsync(int fd) { REAL(fsync); OF_FILE(SYNC, real(fd), -1); }
int fdatasync(int fd) { REAL(fdatasync); OF_FILE(SYNC, real(fd), -1); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); OF_FILE(TRUNCATE, real(fd, size), -1); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); OF_FILE(TRUNCATE, real(fd, size), -1); }
int fchmod(int fd, mode_t mode) { REAL(fchmod); OF_FILE(CHMOD, real(fd, mode), -1); }
int flock(int fd, int how) { REAL(flock); OF_FILE(LOCK, real(fd, how), -1); }
int fstat(int fd, struct stat *about) { REAL(fstat); OF_FILE(STAT, real(fd, about), -1); }
int fstat64(int fd, struct stat64 *about) { REAL(fstat64); OF_FILE(STAT, real(fd, about), -1); }

/* Locking may fail, unlocking never does. */
#define LOCKS(name) int name(int fd, int command, ...) { \
    REAL(name); \
    va_list list; va_start(list, command); void *argument = va_arg(list, void *); va_end(list); \
    int locks = (command == F_SETLK || command == F_SETLKW) && ((struct flock *)argument)->l_type != F_UNLCK; \
    PLAIN(LOCK, locks && kind(fd) == FILE_FD, kind(fd) == FILE_FD ? names[fd] : "", real(fd, command, argument), -1); }
LOCKS(fcntl)
LOCKS(fcntl64)
#define MAPS(name, offset_type) void *name(void *at, size_t size, int allowed, int flags, int fd, offset_type offset) { \
    REAL(name); \
    OF_FILE(MMAP, real(at, size, allowed, flags, fd, offset), MAP_FAILED); }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

int rename(const char *from, const char *to) { REAL(rename); PLAIN(RENAME, ours(from), to, real(from, to), -1); }
int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat); PLAIN(RENAME, ours(from), to, real(a, from, b, to), -1); }
int link(const char *from, const char *to) { REAL(link); PLAIN(RENAME, ours(from), to, real(from, to), -1); }
int unlink(const char *path) { REAL(unlink); PLAIN(UNLINK, ours(path), path, real(path), -1); }
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat); PLAIN(UNLINK, ours(path), path, real(folder, path, flags), -1); }
int rmdir(const char *path) { REAL(rmdir); PLAIN(UNLINK, ours(path), path, real(path), -1); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); PLAIN(MKDIR, ours(path), path, real(path, mode), -1); }
int chmod(const char *path, mode_t mode) { REAL(chmod); PLAIN(CHMOD, ours(path), path, real(path, mode), -1); }
int stat(const char *path, struct stat *about) { REAL(stat); PLAIN(STAT, ours(path), path, real(path, about), -1); }
int stat64(const char *path, struct stat64 *about) { REAL(stat64); PLAIN(STAT, ours(path), path, real(path, about), -1); }
int lstat(const char *path, struct stat *about) { REAL(lstat); PLAIN(STAT, ours(path), path, real(path, about), -1); }
int lstat64(const char *path, struct stat64 *about) { REAL(lstat64); PLAIN(STAT, ours(path), path, real(path, about), -1); }
int fstatat(int folder, const char *path, struct stat *about, int flags) {
    REAL(fstatat); PLAIN(STAT, ours(path), path, real(folder, path, about, flags), -1); }
int fstatat64(int folder, const char *path, struct stat64 *about, int flags) {
    REAL(fstatat64); PLAIN(STAT, ours(path), path, real(folder, path, about, flags), -1); }
int statx(int folder, const char *path, int flags, unsigned mask, struct statx *about) {
    REAL(statx); PLAIN(STAT, ours(path), path, real(folder, path, flags, mask, about), -1); }
int access(const char *path, int how) { REAL(access); PLAIN(STAT, ours(path), path, real(path, how), -1); }

static int connected(int fd, const char *name) {
    if (fd >= 0 && enabled) mark(fd, SOCKET_FD, name);
    return fd;
}
static int is_network(int family) { return control && enabled && (family == AF_UNIX || family == AF_INET || family == AF_INET6); }
#define OF_SOCKET(klass, call) PLAIN(klass, kind(fd) == SOCKET_FD, "a socket", call, -1)
int socket(int family, int type, int protocol) {
    REAL(socket);
    if (!is_network(family)) return real(family, type, protocol);
    PLAIN(SOCKET, 1, "a socket", connected(real(family, type, protocol), "a socket"), -1); }
int bind(int fd, const struct sockaddr *to, socklen_t size) { REAL(bind); OF_SOCKET(BIND, real(fd, to, size)); }
int listen(int fd, int backlog) { REAL(listen); OF_SOCKET(LISTEN, real(fd, backlog)); }
int connect(int fd, const struct sockaddr *to, socklen_t size) {
    REAL(connect); OF_SOCKET(CONNECT, real(fd, to, size)); }
int accept(int fd, struct sockaddr *from, socklen_t *size) {
    REAL(accept); OF_SOCKET(ACCEPT, connected(real(fd, from, size), "a client")); }
int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags) {
    REAL(accept4); OF_SOCKET(ACCEPT, connected(real(fd, from, size, flags), "a client")); }
int epoll_ctl(int poll, int command, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    PLAIN(POLL, command == EPOLL_CTL_ADD && kind(fd) == SOCKET_FD, "a socket", real(poll, command, fd, event), -1); }
int inotify_add_watch(int fd, const char *path, uint32_t mask) {
    REAL(inotify_add_watch); PLAIN(POLL, ours(path), path, real(fd, path, mask), -1); }
