package io.github.bursar.linkis.ecm;

/** A process of this machine, told apart from later ones of the same pid by its start. */
final class EngineProcess {
  final long pid;

  /** In clock ticks after boot, as field 22 of /proc/PID/stat has it. */
  final long startTime;

  EngineProcess(long pid, long startTime) {
    this.pid = pid;
    this.startTime = startTime;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof EngineProcess
        && ((EngineProcess) other).pid == pid
        && ((EngineProcess) other).startTime == startTime;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(pid) * 31 + Long.hashCode(startTime);
  }

  @Override
  public String toString() {
    return "pid " + pid + " started at " + startTime;
  }
}
