package io.github.bursar.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.bursar.client.BursarException.Code;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes calls: chooses the server, and repeats what was not answered. */
final class Caller {
  private static final Logger log = LoggerFactory.getLogger(BursarClient.class);
  private static final ObjectMapper json = new ObjectMapper();
  private static final long FIRST_DELAY = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long LONGEST_DELAY = TimeUnit.SECONDS.toNanos(1);

  private static final long SHORTEST_ATTEMPT = TimeUnit.MILLISECONDS.toNanos(100);

  // An answer about one allocation, host or rule.
  private static final int LARGEST_SINGLE = 1 << 20;

  private final List<Transport> servers;
  private final Token token;
  private final Duration attemptTimeout;
  private final int maxAnswerBytes;
  private final ExecutorService later;
  private volatile int current; // the server that answered last
  private volatile boolean closed;

  Caller(List<Transport> servers, Token token, Duration attemptTimeout, int maxAnswerBytes) {
    this.servers = servers;
    this.token = token;
    this.attemptTimeout = attemptTimeout;
    this.maxAnswerBytes = maxAnswerBytes;
    ThreadPoolExecutor pool =
        new ThreadPoolExecutor(
            1,
            1,
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(1000),
            r -> {
              Thread t = new Thread(r, "bursar-client-cancel");
              t.setDaemon(true);
              return t;
            });
    pool.allowCoreThreadTimeOut(true);
    later = pool;
  }

  /** Calls and decodes. */
  <T> T read(String path, ObjectNode body, Duration timeout, Function<JsonNode, T> decoder) {
    return decode(call(path, body, timeout), decoder);
  }

  static <T> T decode(JsonNode answer, Function<JsonNode, T> decoder) {
    try {
      return decoder.apply(answer);
    } catch (Json.MalformedAnswer e) {
      throw new BursarException(Code.INTERNAL, "the server's answer is not understood: " + e.getMessage(), false, e);
    }
  }

  /** Calls until there is an answer, or the time is over: then it is the last attempt's error. */
  JsonNode call(String path, ObjectNode body, Duration timeout) {
    return call(path, () -> body, timeout, () -> {});
  }

  /**
   * The same.
   *
   * @param body of the next attempt
   * @param undecided runs before this fails, if nobody knows whether an attempt had an effect
   */
  JsonNode call(String path, Supplier<ObjectNode> body, Duration timeout, Runnable undecided) {
    boolean[] unknown = {false};
    try {
      return attempts(path, body, timeout, unknown);
    } catch (BursarException e) {
      if (unknown[0]) {
        undecided.run();
      }
      throw e;
    }
  }

  private JsonNode attempts(String path, Supplier<ObjectNode> body, Duration timeout, boolean[] unknown) {
    long end = System.nanoTime() + timeout.toNanos();
    long delay = FIRST_DELAY;
    int most = path.endsWith("/List") || path.endsWith("/Apply") ? maxAnswerBytes : Math.min(maxAnswerBytes, LARGEST_SINGLE);
    int server = current;
    int untried = servers.size(); // servers that were not yet asked since the last delay
    BursarException failure = null;
    while (true) {
      Transport t = servers.get(server);
      BursarException before = failure;
      long left = end - System.nanoTime();
      try {
        Duration attempt = Duration.ofNanos(Math.max(TimeUnit.MILLISECONDS.toNanos(1), Math.min(left, attemptTimeout.toNanos())));
        Transport.Answer answer = t.post(path, headers(Duration.ofNanos(Math.max(left, attempt.toNanos())), "application/json"), bytes(body.get()), attempt, most);
        JsonNode ok = Errors.result(answer, t.target());
        current = server;
        return ok;
      } catch (IOException e) {
        // What an attempt met says more than that the last one had too little time.
        boolean cut = left < attemptTimeout.toNanos() && end - System.nanoTime() < SHORTEST_ATTEMPT;
        failure = cut && before != null ? before : Errors.unanswered(t.target(), e);
        unknown[0] |= !(e instanceof Transport.ConnectFailed);
      } catch (BursarException e) {
        unknown[0] |= undecided(e);
        if (!repeatable(e)) {
          throw e;
        }
        failure = e;
      }
      if (closed) {
        throw new BursarException(Code.CANCELED, "the client is closed", false, failure);
      }
      boolean busy = failure.code() == Code.RESOURCE_EXHAUSTED;
      if (!busy) {
        server = (server + 1) % servers.size();
        untried--;
      }
      if (busy || untried <= 0) {
        long pause = failure.retryAfter().map(Duration::toNanos).orElse(0L);
        pause = Math.max(pause, ThreadLocalRandom.current().nextLong(delay / 2, delay));
        delay = Math.min(LONGEST_DELAY, delay * 2);
        untried = servers.size();
        if (System.nanoTime() + pause + SHORTEST_ATTEMPT - end >= 0) {
          throw failure; // it says more than an attempt that had no time
        }
        sleep(pause, failure);
      } else if (System.nanoTime() + SHORTEST_ATTEMPT - end >= 0) {
        throw failure;
      }
    }
  }

  /**
   * Whether the same call may be answered next time. A refusal is an answer, a late one is none.
   */
  private static boolean repeatable(BursarException e) {
    return e.code() == Code.UNAVAILABLE
        || e.code() == Code.DEADLINE_EXCEEDED
        || e.code() == Code.RESOURCE_EXHAUSTED && !e.refusal().isPresent();
  }

  /** Whether it may have been done nevertheless. */
  private static boolean undecided(BursarException e) {
    switch (e.code()) {
      case UNAVAILABLE:
      case DEADLINE_EXCEEDED:
      case CANCELED:
      case ABORTED:
      case INTERNAL:
      case UNKNOWN:
        return true;
      default:
        return false;
    }
  }

  private static void sleep(long nanos, BursarException failure) {
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BursarException(Code.CANCELED, "interrupted while nobody answered: " + failure.getMessage(), true, failure);
    }
  }

  /** A stream of the server that answered last; the next one is asked if that fails. */
  Transport.Stream stream(String path, ObjectNode body, Duration idle) throws IOException {
    int server = current;
    byte[] message = bytes(body);
    byte[] framed = new byte[message.length + 5];
    for (int i = 0; i < 4; i++) {
      framed[1 + i] = (byte) (message.length >>> (24 - 8 * i));
    }
    System.arraycopy(message, 0, framed, 5, message.length);
    try {
      return servers.get(server).stream(path, headers(null, "application/connect+json"), framed, idle);
    } catch (IOException e) {
      nextServer(server);
      throw e;
    }
  }

  /** What was sent to the current server broke: the next one is asked from now on. */
  void nextServer() {
    nextServer(current);
  }

  private void nextServer(int failed) {
    if (current == failed) {
      current = (failed + 1) % servers.size();
    }
  }

  /**
   * With the time that is left for the call: a server that knew of an attempt's alone would end a
   * wait with it.
   */
  private Map<String, String> headers(Duration timeout, String contentType) {
    Map<String, String> h = new LinkedHashMap<>();
    h.put("Content-Type", contentType);
    h.put("Connect-Protocol-Version", "1");
    if (timeout != null) {
      h.put("Connect-Timeout-Ms", Long.toString(Math.max(1, timeout.toMillis())));
    }
    if (token != null) {
      h.put("Authorization", "Bearer " + token.get());
    }
    return h;
  }

  private static byte[] bytes(ObjectNode body) {
    try {
      return json.writeValueAsBytes(body);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e); // a tree can be written
    }
  }

  /**
   * Cancels a request of which nobody knows whether it was granted, in the background: its caller
   * has
   * no more time. If nobody can be reached, it ends by itself.
   */
  void cancelLater(String requestId) {
    try {
      later.execute(
          () -> {
            try {
              ObjectNode o = Json.object().put("requestId", requestId).put("reason", "its caller got no answer");
              call("/bursar.v1.AllocationService/Cancel", o, Duration.ofSeconds(30));
            } catch (BursarException e) {
              log.info("request {} was not answered and could not be canceled; it ends by itself: {}", requestId, e.getMessage());
            }
          });
    } catch (RejectedExecutionException e) {
      log.info("request {} was not answered and is not canceled: too many are; it ends by itself", requestId);
    }
  }

  boolean isClosed() {
    return closed;
  }

  void close() {
    closed = true;
    later.shutdownNow();
    servers.forEach(Transport::close);
  }
}
