package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.bursar.client.BursarException.Code;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Follows the transitions of allocations on a thread of its own, and resumes after every break. */
public final class AllocationWatch implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(AllocationWatch.class);
  private static final String PATH = "/bursar.v1.AllocationService/Watch";
  private static final int LARGEST_MESSAGE = 8 << 20;
  // Keep-alives come each 15 s.
  private static final Duration IDLE = Duration.ofSeconds(45);
  private static final long LONGEST_DELAY = 2_000;

  /** Who listens. All calls come from the watch's thread, one after the other. */
  public interface Listener {
    /** A transition: the allocation after it. Those that have ended are {@code state().ended()}. */
    void onTransition(Allocation allocation, long revision);

    /**
     * Transitions were missed: the revision to go on from is no longer held, or another store is in
     * use. List, and return the list's revision to go on from it; 0: from now on.
     */
    long onGap();
  }

  private final Caller caller;
  private final Listener listener;
  private final Thread thread;
  private volatile boolean closed;
  private Transport.Stream open; // guarded by this
  private long revision; // the thread's own, as the rest
  private boolean answered;

  private AllocationWatch(Caller caller, long afterRevision, Listener listener) {
    this.caller = caller;
    this.revision = afterRevision;
    this.listener = listener;
    thread = new Thread(this::run, "bursar-watch");
    thread.setDaemon(true);
  }

  static AllocationWatch start(Caller caller, long afterRevision, Listener listener) {
    AllocationWatch w = new AllocationWatch(caller, afterRevision, listener);
    w.thread.start();
    return w;
  }

  private void run() {
    long delay = 50;
    while (!closed && !caller.isClosed()) {
      answered = false;
      try {
        follow();
      } catch (BursarException e) {
        if (e.code() == Code.OUT_OF_RANGE) {
          gap();
        } else {
          failed(e);
        }
      } catch (Exception | Error e) { // whatever it is: a watch goes on until it is closed
        failed(e);
      }
      delay = answered ? 50 : Math.min(LONGEST_DELAY, delay * 2);
      if (!closed) {
        pause(delay);
      }
    }
  }

  private void gap() {
    try {
      revision = listener.onGap();
    } catch (RuntimeException | Error e) {
      failed(e); // asked again
    }
  }

  private void failed(Throwable e) {
    if (!closed && !caller.isClosed()) {
      log.info("watch after revision {} broke and goes on: {}", revision, e.toString());
      caller.nextServer();
    }
  }

  private void pause(long millis) {
    try {
      TimeUnit.MILLISECONDS.sleep(millis);
    } catch (InterruptedException e) {
      closed = true;
    }
  }

  private void follow() throws IOException {
    ObjectNode request = Json.object();
    Json.putLong(request, "afterRevision", revision);
    try (Transport.Stream stream = caller.stream(PATH, request, IDLE)) {
      synchronized (this) {
        if (closed) {
          return;
        }
        open = stream;
      }
      if (stream.status() != 200) {
        throw new IOException("HTTP " + stream.status());
      }
      DataInputStream in = new DataInputStream(stream.body());
      while (!closed && message(in)) {
        answered = true;
      }
    } finally {
      synchronized (this) {
        open = null;
      }
    }
  }

  /** Reads one message; false: it was the last. */
  private boolean message(DataInputStream in) throws IOException {
    int flags;
    try {
      flags = in.readUnsignedByte();
    } catch (EOFException e) {
      throw new IOException("the stream ended without an end", e);
    }
    int length = in.readInt();
    if (length < 0 || length > LARGEST_MESSAGE || (flags & ~2) != 0) {
      throw new IOException("no message of a stream: flags " + flags + ", length " + length);
    }
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    JsonNode n = Json.parse(bytes);
    if (n == null) {
      throw new IOException("a message that is no JSON: " + length + " bytes");
    }
    if ((flags & 2) != 0) {
      if (n.path("error").isObject()) {
        throw Errors.error(n.path("error"), null);
      }
      return false;
    }
    long at = Json.longOr0(n, "revision");
    if (n.path("allocation").isObject()) {
      listener.onTransition(Allocation.fromJson(n.path("allocation")), at);
    }
    // After the listener: what it could not take comes again.
    if (at > 0) {
      revision = at;
    }
    return true;
  }

  /** Ends the watch. The listener may hear of one more transition. */
  @Override
  public void close() {
    closed = true;
    Transport.Stream stream;
    synchronized (this) {
      stream = open;
    }
    if (stream != null) {
      try {
        stream.close();
      } catch (IOException e) {
        log.debug("closing a watch", e);
      }
    }
    thread.interrupt();
  }
}
