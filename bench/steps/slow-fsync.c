// slow-fsync MICROSECONDS COMMAND...: runs a command in which every fsync and fdatasync takes so much longer, that of its
// children and of statically linked programs included. The kernel asks this process about each of them; it waits and
// lets them through.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 64 };
static int listener;
static struct timespec delay;

static long nanos_since(const struct timespec *from) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - from->tv_sec) * 1000000000L + now.tv_nsec - from->tv_nsec;
}

// A short sleep lasts longer than it should, on virtual machines by half: it is asked for less, so that it lasts as told.
static void calibrate(long nanos) {
  long asked = nanos;
  prctl(PR_SET_TIMERSLACK, 1);
  for (int round = 0; round < 4; round++) {
    delay.tv_sec = asked / 1000000000L;
    delay.tv_nsec = asked % 1000000000L;
    struct timespec from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 20; i++) clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    asked -= nanos_since(&from) / 20 - nanos;
    if (asked < nanos / 10) asked = nanos / 10;
  }
}

// Several at once: two processes that sync at the same time wait at the same time.
static void *let_through(void *unused) {
  prctl(PR_SET_TIMERSLACK, 1);
  for (;;) {
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer;
    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return unused;
    }
    clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    memset(&answer, 0, sizeof answer);
    answer.id = asked.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

static int listen_in_child(int channel) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fsync, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fdatasync, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (fd < 0) return -1;
  char byte = 0, space[CMSG_SPACE(sizeof fd)];
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(channel, &message, 0) < 0) return -1;
  close(fd);
  return 0;
}

static int receive_listener(int channel) {
  char byte, space[CMSG_SPACE(sizeof(int))];
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  if (recvmsg(channel, &message, 0) <= 0) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != NULL) memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

int main(int count, char **words) {
  if (count < 3) return 64;
  calibrate(atol(words[1]) * 1000);
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) return 70;
  pid_t child = fork();
  if (child == 0) {
    close(channel[0]);
    if (listen_in_child(channel[1]) != 0) {
      perror("slow-fsync");
      _exit(71);
    }
    close(channel[1]);
    execvp(words[2], words + 2);
    perror(words[2]);
    _exit(127);
  }
  close(channel[1]);
  listener = receive_listener(channel[0]);
  if (listener >= 0) {
    for (int i = 0; i < WAITERS; i++) {
      pthread_t thread;
      pthread_create(&thread, NULL, let_through, NULL);
    }
  }
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 72;
}
