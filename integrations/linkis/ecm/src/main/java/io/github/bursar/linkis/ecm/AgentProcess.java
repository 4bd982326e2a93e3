package io.github.bursar.linkis.ecm;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.OptionalInt;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An engine that the agent has started, as a Process: Linkis waits for it, reads its output and ends
 * it as if it were a child of the ECM.
 */
final class AgentProcess extends Process {
  private static final Logger log = LoggerFactory.getLogger(AgentProcess.class);

  private static final long LOOK = 200; // milliseconds between two looks into the process table
  private static final long ASK = 1000; // … and between two questions to the agent

  /** From the end of the engine's JVM until its allocation must be over. The agent needs far less. */
  static final Duration UNTIL_RELEASED = Duration.ofSeconds(20);

  private static final Duration PATIENCE = Duration.ofSeconds(5);
  private static final Duration GRACE = Duration.ofSeconds(10);
  private static final int MAX_OUTPUT = 256 << 10;

  private final Agent agent;
  private final ProcessTable processes;
  private final String id;
  private final Supplier<EngineProcess> jvm;
  private final Runnable ended;
  private final Duration untilReleased;
  final EngineProcess root;

  /** Whether the agent's pids are the ones that are seen here. */
  private final boolean visible;

  private OptionalInt exit = OptionalInt.empty(); // guarded by this
  private Output output; // guarded by this

  /**
   * @param jvm the engine's own process; null: it was not found, or not yet
   * @param ended is run if the process that was started has ended and the JVM, if it was found, has
   *     too; the processes of its tasks may still run. More than once
   * @param untilReleased {@link #UNTIL_RELEASED}
   */
  AgentProcess(
      Agent agent,
      ProcessTable processes,
      AgentAllocation launched,
      Supplier<EngineProcess> jvm,
      Runnable ended,
      Duration untilReleased) {
    this.agent = agent;
    this.processes = processes;
    this.id = launched.id;
    this.jvm = jvm;
    this.ended = ended;
    this.untilReleased = untilReleased;
    this.root = new EngineProcess(launched.pid, launched.startTime);
    this.visible = processes.runs(root);
  }

  @Override
  public int waitFor() throws InterruptedException {
    long unknown = 0;
    while (true) {
      if (runs()) {
        Thread.sleep(LOOK);
        continue;
      }
      if (isOver()) {
        break;
      }
      // What is known of an engine whose JVM was not found is what the agent says: as long as it is
      // away, nothing.
      boolean found = jvm.get() != null;
      if (found && unknown == 0) {
        ended.run();
        unknown = System.nanoTime() + untilReleased.toNanos();
      } else if (found && System.nanoTime() > unknown) {
        log.warn("engine {} has ended and the agent does not say how", id);
        over(AgentAllocation.UNKNOWN_EXIT);
        break;
      }
      Thread.sleep(found ? LOOK : ASK);
    }
    synchronized (this) {
      return exit.getAsInt();
    }
  }

  /**
   * Whether the process that was started or the engine's JVM is seen to run. The first is a shell:
   * if it alone is killed, the engine goes on.
   */
  private boolean runs() {
    if (rootRuns()) {
      return true;
    }
    EngineProcess engine = jvm.get();
    return engine != null && processes.runs(engine);
  }

  boolean rootRuns() {
    return visible && processes.runs(root);
  }

  private boolean isOver() {
    synchronized (this) {
      if (exit.isPresent()) {
        return true;
      }
    }
    try {
      AgentAllocation now = agent.get(id, PATIENCE);
      if (now.isOver()) {
        over(now.exit);
        return true;
      }
    } catch (AgentException e) {
      if (e.code.equals("not_found")) {
        over(AgentAllocation.UNKNOWN_EXIT); // long ago
        return true;
      }
      log.debug("engine {}: {}", id, e.getMessage());
    }
    return false;
  }

  private synchronized void over(int code) {
    exit = OptionalInt.of(code);
  }

  /**
   * Whether it runs or has output that was not read yet: Linkis reads lines only as long as the
   * process lives, and the script writes its last ones when it ends.
   */
  @Override
  public boolean isAlive() {
    Output reading;
    synchronized (this) {
      reading = output;
    }
    if (reading != null && !reading.isRead()) {
      return true;
    }
    return runs() || jvm.get() == null && !isOver();
  }

  @Override
  public int exitValue() {
    if (runs() || !isOver()) {
      throw new IllegalThreadStateException("engine " + id + " has not ended");
    }
    synchronized (this) {
      return exit.getAsInt();
    }
  }

  @Override
  public void destroy() {
    try {
      agent.stop(id, "stopped by Linkis", GRACE, PATIENCE);
    } catch (AgentException e) {
      if (!e.isUnknown()) {
        log.error("engine {} could not be stopped: {}", id, e.getMessage());
      }
    }
  }

  @Override
  public synchronized InputStream getInputStream() {
    if (output == null) {
      output = new Output();
    }
    return output;
  }

  @Override
  public InputStream getErrorStream() {
    return new ByteArrayInputStream(new byte[0]); // it is part of the output
  }

  @Override
  public OutputStream getOutputStream() {
    return new OutputStream() {
      @Override
      public void write(int b) throws IOException {
        throw new IOException("an engine that an agent has started reads nothing");
      }
    };
  }

  /**
   * What the engine has written, from its end on: its standard output, then its standard error. If
   * that is too much, each has half, and what the other leaves: its end, where the reason of a
   * failure is.
   */
  private final class Output extends InputStream {
    private ByteArrayInputStream content; // null: not there yet
    private volatile boolean read;

    boolean isRead() {
      return read;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      if (length == 0) {
        return 0;
      }
      if (content == null) {
        content = new ByteArrayInputStream(whole());
      }
      int n = content.read(into, offset, length);
      read = n < 0;
      return n;
    }

    private byte[] whole() throws IOException {
      try {
        waitFor();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted", e);
      }
      byte[] printed = end(Agent.STDOUT, MAX_OUTPUT);
      byte[] wrong = end(Agent.STDERR, Math.max(MAX_OUTPUT / 2, MAX_OUTPUT - printed.length));
      int n = Math.min(printed.length, MAX_OUTPUT - wrong.length);
      byte[] both = Arrays.copyOfRange(printed, printed.length - n, printed.length + wrong.length);
      System.arraycopy(wrong, 0, both, n, wrong.length);
      return both;
    }

    private byte[] end(String stream, int most) {
      try {
        return agent.output(id, stream, most, PATIENCE);
      } catch (AgentException e) {
        log.warn("what engine {} has written cannot be read: {}", id, e.getMessage());
        return new byte[0];
      }
    }

    @Override
    public void close() {
      read = true;
    }
  }
}
