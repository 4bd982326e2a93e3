package io.github.bursar.linkis.ecm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Predicate;

/** The agent of this machine. All calls can be repeated; they are, until their time is over. */
final class Agent implements Closeable {
  private static final Duration ATTEMPT = Duration.ofSeconds(10);
  private static final long PAUSE_FIRST = 100; // milliseconds
  private static final long PAUSE_LAST = 2000;
  private static final int PAGE = 500;
  private static final int MAX_PAGES = 100;
  private static final long MAX_LOG = 1L << 40; // of the agent
  private static final String STARTING = "PHASE_STARTING";

  static final String STDOUT = "OUTPUT_STREAM_STDOUT";
  static final String STDERR = "OUTPUT_STREAM_STDERR";

  private final AgentTransport transport;

  Agent(String socket) {
    this.transport = new AgentTransport(socket);
  }

  /** Fails if no agent answers. */
  void ping(Duration patience) throws AgentException {
    repeat("AllocationService/List", AgentTransport.object().put("pageSize", 1), patience);
  }

  /**
   * Fails with permission_denied unless this process may act for all users. An Explain changes
   * nothing; it is for a user that the ECM's account is not.
   */
  void requireTrust(Duration patience) throws AgentException {
    ObjectNode request = AgentTransport.object();
    ObjectNode asked = request.putObject("request");
    asked.putObject("labels").put("user", "another-user");
    asked.putObject("resource").put("memoryBytes", "1");
    repeat("AllocationService/Explain", request, patience);
  }

  AgentAllocation get(String id, Duration patience) throws AgentException {
    return one(
        repeat("AllocationService/Get", AgentTransport.object().put("id", id), patience));
  }

  /** The live engines of this host that can be reached at an address. */
  List<AgentAllocation> at(String address, Duration patience) throws AgentException {
    return active(allocation -> allocation.address.equals(address), patience);
  }

  /** Those of the live engines of this host that are asked for. */
  List<AgentAllocation> active(Predicate<AgentAllocation> wanted, Duration patience)
      throws AgentException {
    List<AgentAllocation> found = new ArrayList<>();
    long end = System.nanoTime() + patience.toNanos();
    String token = "";
    int pages = 0;
    do {
      if (pages++ == MAX_PAGES) {
        throw new AgentException("internal", "the agent lists more than " + MAX_PAGES + " pages");
      }
      ObjectNode request = AgentTransport.object().put("pageSize", PAGE).put("pageToken", token);
      request.putArray("states").add("ALLOCATION_STATE_ACTIVE");
      JsonNode page =
          repeat("AllocationService/List", request, Duration.ofNanos(end - System.nanoTime()));
      for (JsonNode node : page.path("allocations")) {
        AgentAllocation allocation = new AgentAllocation(node);
        if (wanted.test(allocation)) {
          found.add(allocation);
        }
      }
      token = page.path("nextPageToken").asText();
    } while (!token.isEmpty());
    return found;
  }

  /**
   * Says which process the engine of an allocation is, and where it can be reached. The engine
   * starts: LinkisManager says when it is ready.
   */
  AgentAllocation confirm(String id, EngineProcess process, String address, Duration patience)
      throws AgentException {
    ObjectNode request =
        AgentTransport.object().put("id", id).put("address", address).put("phase", STARTING);
    request
        .putObject("process")
        .put("pid", process.pid)
        .put("startTime", Long.toString(process.startTime));
    return one(repeat("AllocationService/Confirm", request, patience));
  }

  /**
   * Has the agent start the engine of an allocation, as a user of this machine. The engine starts:
   * LinkisManager says when it is ready.
   *
   * @param logDir where the agent writes the engine's files stdout and stderr, whatever their size;
   *     null: in a folder of its own
   */
  AgentAllocation launch(
      String id, List<String> command, String workDir, String logDir, String user, String address)
      throws AgentException {
    ObjectNode request = AgentTransport.object().put("id", id).put("address", address);
    ArrayNode arguments = request.putArray("command");
    command.forEach(arguments::add);
    request.put("workingDirectory", workDir).put("user", user).put("phase", STARTING);
    if (logDir != null) {
      request.putObject("logs").put("directory", logDir).put("maxBytes", Long.toString(MAX_LOG));
    }
    return one(repeat("EngineService/Launch", request, Duration.ofSeconds(60)));
  }

  /** The last bytes that an engine has written to one of its streams. */
  byte[] output(String id, String stream, int most, Duration patience) throws AgentException {
    ObjectNode request =
        AgentTransport.object().put("id", id).put("stream", stream).put("tailBytes", Integer.toString(most));
    return retried(
        patience,
        timeout -> {
          ByteArrayOutputStream bytes = new ByteArrayOutputStream();
          for (JsonNode message : transport.stream("EngineService/Logs", request, timeout)) {
            try {
              byte[] piece = message.path("data").binaryValue();
              bytes.write(piece == null ? new byte[0] : piece);
            } catch (IOException e) {
              throw new AgentException("internal", "EngineService/Logs: data is not in base64", e);
            }
          }
          return bytes.toByteArray();
        });
  }

  /** Asks for the end of an engine; it is not over when this returns. */
  void stop(String id, String reason, Duration grace, Duration patience) throws AgentException {
    repeat(
        "AllocationService/Stop",
        AgentTransport.object()
            .put("id", id)
            .put("reason", reason)
            .put("grace", grace.getSeconds() + "s"),
        patience);
  }

  private static AgentAllocation one(JsonNode answer) {
    return new AgentAllocation(answer.path("allocation"));
  }

  private JsonNode repeat(String procedure, ObjectNode request, Duration patience)
      throws AgentException {
    return retried(patience, timeout -> transport.call(procedure, request, timeout));
  }

  /** A call that can be repeated. */
  private interface Attempt<A> {
    A within(Duration timeout) throws AgentException;
  }

  private static <A> A retried(Duration patience, Attempt<A> attempt) throws AgentException {
    long end = System.nanoTime() + patience.toNanos();
    long pause = PAUSE_FIRST;
    while (true) {
      Duration left = Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()));
      try {
        return attempt.within(left.compareTo(ATTEMPT) < 0 ? left : ATTEMPT);
      } catch (AgentException e) {
        long wait = ThreadLocalRandom.current().nextLong(pause / 2, pause + 1);
        if (!e.isRetriable() || end - System.nanoTime() < wait * 1_000_000) {
          throw e;
        }
        pause = Math.min(2 * pause, PAUSE_LAST);
        try {
          Thread.sleep(wait);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          throw e;
        }
      }
    }
  }

  @Override
  public void close() {
    transport.close();
  }
}
