package io.github.bursar.linkis;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.github.bursar.client.BursarClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;

/** A coordinator that says what a test wants, for faults that a real one does not make on demand. */
public final class FakeBursar implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final HttpServer server;
  /** Calls as "Method id". */
  public final List<String> calls = new CopyOnWriteArrayList<>();
  private final Map<String, ObjectNode> allocations = new LinkedHashMap<>();
  private final Map<String, ObjectNode> hosts = new LinkedHashMap<>();
  private final List<ObjectNode> quotas = new ArrayList<>();
  private final List<ObjectNode> accounts = new ArrayList<>();
  private final Map<String, ObjectNode> queues = new LinkedHashMap<>();
  private long revision = 1;
  /** Calls for these ids are PERMISSION_DENIED. */
  public final Set<String> denied = ConcurrentHashMap.newKeySet();
  /** How many hosts a page has; 0: all. */
  public volatile int hostsPerPage;
  /** Every answer is UNAVAILABLE. */
  public volatile boolean down;
  /** What a request would meet. */
  public volatile ObjectNode explanation = JSON.createObjectNode();
  /** Whether the one cluster, yarn:default, can be read. */
  public volatile boolean clusterKnown = true;
  /** The error of a question for a queue; null: it is answered. */
  public volatile ObjectNode queueError;
  /** How long the last request would wait, as "5s". */
  public volatile String waits = "";
  /** The answer to a request: an error, or an allocation. */
  public volatile ObjectNode refusal = object("{'code':'unimplemented','message':'not in this fake'}");
  /** Every answer takes so long. */
  public volatile Duration delay = Duration.ZERO;

  public FakeBursar() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newCachedThreadPool(r -> {
      Thread t = new Thread(r, "fake-bursar");
      t.setDaemon(true);
      return t;
    }));
    server.createContext("/", this::handle);
    server.start();
  }

  public BursarClient client() {
    return client(Duration.ofSeconds(2));
  }

  public BursarClient client(Duration callTimeout) {
    return BursarClient.builder().urls("http://127.0.0.1:" + server.getAddress().getPort()).callTimeout(callTimeout).build();
  }

  public static ObjectNode object(String text) {
    try {
      return (ObjectNode) JSON.readTree(text.replace('\'', '"'));
    } catch (IOException e) {
      throw new IllegalArgumentException(text, e);
    }
  }

  /** An allocation, of which more may be said: 'field':value,... */
  public synchronized void allocation(String id, String state, String more) {
    ObjectNode a = object("{'id':'" + id + "','state':'ALLOCATION_STATE_" + state + "'" + (more.isEmpty() ? "" : "," + more) + "}");
    allocations.put(id, a);
    revision++;
  }

  /** Nobody knows it any more. */
  public synchronized void forget(String id) {
    allocations.remove(id);
    revision++;
  }

  public synchronized void host(String id, String more) {
    hosts.put(id, object("{'id':'" + id + "','state':'HOST_STATE_HEALTHY'," + more + "}"));
  }

  public synchronized void quota(String rule) {
    quotas.add(object(rule));
    revision++;
  }

  /** A queue with so much at most, and so much of it used by others, in GiB and cores. */
  public synchronized void queue(String path, long gibibytes, long cores, long usedGibibytes, long usedCores, String more) {
    queues.put(
        path,
        object("{'kind':'yarn','cluster':'default','path':'" + path + "'" + (more.isEmpty() ? "" : "," + more)
            + ",'account':{'name':{'kind':'ACCOUNT_KIND_QUEUE'},'limit':" + amount(gibibytes, cores)
            + ",'usedByOthers':" + amount(usedGibibytes, usedCores) + "}}"));
  }

  /** What is answered for a queue, to be changed. */
  public synchronized ObjectNode queues(String path) {
    return queues.get(path);
  }

  private static String amount(long gibibytes, long cores) {
    return "{'memoryBytes':'" + (gibibytes << 30) + "','cpuMillis':'" + cores * 1000 + "'}";
  }

  public synchronized void account(String account) {
    accounts.add(object(account));
    revision++;
  }

  public long count(String call) {
    return calls.stream().filter(c -> c.startsWith(call)).count();
  }

  private void handle(HttpExchange x) throws IOException {
    JsonNode in = JSON.readTree(x.getRequestBody());
    String path = x.getRequestURI().getPath();
    String method = path.substring(path.lastIndexOf('.') + 1);
    calls.add(method + " " + in.path("id").asText());
    if (!delay.isZero()) {
      try {
        Thread.sleep(delay.toMillis());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    if (down) {
      answer(x, 503, object("{'code':'unavailable','message':'down'}"));
      return;
    }
    if (denied.contains(in.path("id").asText())) {
      answer(x, 403, object("{'code':'permission_denied','message':'not yours'}"));
      return;
    }
    ObjectNode out = answerTo(method, in);
    answer(x, out.has("code") ? 400 : 200, out);
  }

  private synchronized ObjectNode answerTo(String method, JsonNode in) {
    ObjectNode out = JSON.createObjectNode();
    ObjectNode a = allocations.get(in.path("id").asText());
    switch (method) {
      case "AllocationService/List":
        ArrayNode live = out.put("revision", Long.toString(revision)).putArray("allocations");
        allocations.values().stream().filter(FakeBursar::lives).forEach(live::add);
        break;
      case "AllocationService/Get":
        if (in.path("id").asText().length() > 32) {
          return object("{'code':'invalid_argument','message':'id: at most 32 characters'}");
        }
        if (a == null) {
          return object("{'code':'not_found','message':'no such allocation'}");
        }
        out.set("allocation", a);
        break;
      case "AllocationService/Explain":
        return explanation;
      case "AllocationService/Allocate":
        waits = in.path("wait").asText();
        return refusal;
      case "AllocationService/Confirm":
        return object("{'code':'failed_precondition','message':'it cannot be confirmed'}");
      case "AllocationService/Release":
      case "AllocationService/Stop":
        if (a != null) {
          a.put("state", "ALLOCATION_STATE_RELEASED");
          revision++;
          out.set("allocation", a);
        }
        break;
      case "AllocationService/Renew":
        a.put("expireTime", Instant.now().plusSeconds(3600).toString());
        revision++;
        out.set("allocation", a);
        break;
      case "HostService/List":
        int from = in.path("pageToken").asInt(0);
        int to = hostsPerPage == 0 ? hosts.size() : Math.min(hosts.size(), from + hostsPerPage);
        new ArrayList<>(hosts.values()).subList(from, to).forEach(out.putArray("hosts")::add);
        if (to < hosts.size()) {
          out.put("nextPageToken", Integer.toString(to));
        }
        break;
      case "QueueService/Get":
        ObjectNode queue = queues.get(in.path("path").asText());
        if (queueError != null || queue == null) {
          return queueError != null ? queueError : object("{'code':'not_found','message':'no such queue'}");
        }
        out.set("queue", queue);
        break;
      case "QueueService/ListProviders":
        out.putArray("providers").add(
            object("{'kind':'yarn','cluster':'default','health':{'state':'STATE_" + (clusterKnown ? "KNOWN" : "UNKNOWN") + "'}}"));
        break;
      case "QuotaService/List":
        quotas.forEach(out.putArray("quotas")::add);
        accounts.forEach(out.putArray("accounts")::add);
        break;
      default:
        return object("{'code':'unimplemented','message':'not in this fake'}");
    }
    return out;
  }

  private static boolean lives(ObjectNode a) {
    return a.path("state").asText().matches("ALLOCATION_STATE_(WAITING|RESERVED|ACTIVE)");
  }

  private static void answer(HttpExchange x, int status, ObjectNode body) throws IOException {
    byte[] bytes = JSON.writeValueAsBytes(body);
    x.getResponseHeaders().set("Content-Type", "application/json");
    x.sendResponseHeaders(status, bytes.length);
    x.getResponseBody().write(bytes);
    x.close();
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
