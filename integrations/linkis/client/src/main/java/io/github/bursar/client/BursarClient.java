package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Function;

/**
 * A client of Bursar's coordinators.
 *
 * <p>Calls go to one of the servers; if it does not answer, to the next. Any coordinator will do,
 * as
 * those that do not lead pass calls on. Every call may be repeated without another effect, and is
 * repeated until it is answered or its time is over: {@link Builder#callTimeout}, for an Allocate
 * that waits its wait in addition. A change of leader is so a delay and no error.
 *
 * <p>All calls throw {@link BursarException}. Many threads may use one client.
 */
public final class BursarClient implements AutoCloseable {
  private static final String ALLOCATIONS = "/bursar.v1.AllocationService/";
  private static final String HOSTS = "/bursar.v1.HostService/";
  private static final String QUOTAS = "/bursar.v1.QuotaService/";
  private static final String QUEUES = "/bursar.v1.QueueService/";

  private final Caller caller;
  private final Duration timeout;

  private BursarClient(Caller caller, Duration timeout) {
    this.caller = caller;
    this.timeout = timeout;
  }

  /** A builder. */
  public static Builder builder() {
    return new Builder();
  }

  /** The same client with another time for a call. Closing it closes this one. */
  public BursarClient within(Duration timeout) {
    return new BursarClient(caller, positive("timeout", timeout));
  }

  /**
   * Reserves a resource, waits for it if the request says so, or is refused ({@link
   * BursarException#refusal}). All attempts have one request id, so that nothing is granted twice.
   * If this fails and an attempt was not answered, what that may have been granted is canceled if
   * somebody can be reached, and else returns by itself when its reservation expires.
   */
  public Allocation allocate(AllocateRequest request) {
    String id = request.requestId() == null || request.requestId().isEmpty() ? UUID.randomUUID().toString() : request.requestId();
    Duration time = timeout.plus(request.waitTime());
    long began = System.nanoTime();
    JsonNode answer =
        caller.call(
            ALLOCATIONS + "Allocate",
            () -> request.toJson(id, Duration.ofNanos(System.nanoTime() - began)),
            time,
            () -> caller.cancelLater(id));
    try {
      return allocation(answer);
    } catch (BursarException e) { // something was granted, and it cannot be read
      caller.cancelLater(id);
      throw e;
    }
  }

  /**
   * Says that an engine runs. NOT_FOUND or FAILED_PRECONDITION: it holds no resources, and must be
   * stopped.
   */
  public Allocation confirm(ConfirmRequest request) {
    return allocation(caller.call(ALLOCATIONS + "Confirm", request.toJson(), timeout));
  }

  /**
   * Gives everything back once no process of the engine lives: until then the allocation is {@link
   * Allocation#releasing} and counts. Twice, or an unknown id, is fine. Empty: the id is not known.
   */
  public Optional<Allocation> release(String id, String reason) {
    return optionalAllocation(caller.call(ALLOCATIONS + "Release", byId(id, reason), timeout));
  }

  /** Ends a request that waits, or a reservation. Empty: the id is not known. */
  public Optional<Allocation> cancel(String id, String reason) {
    return optionalAllocation(caller.call(ALLOCATIONS + "Cancel", byId(id, reason), timeout));
  }

  /** The same by the id of the request. */
  public Optional<Allocation> cancelByRequestId(String requestId, String reason) {
    ObjectNode o = Json.object().put("requestId", requestId);
    Json.putText(o, "reason", cut(reason));
    return optionalAllocation(caller.call(ALLOCATIONS + "Cancel", o, timeout));
  }

  /**
   * Extends a reservation or a lease from now on; a null time: as long as it was given at first.
   */
  public Allocation renew(String id, Duration ttl) {
    ObjectNode o = Json.object().put("id", id);
    Json.putDuration(o, "ttl", ttl);
    return allocation(caller.call(ALLOCATIONS + "Renew", o, timeout));
  }

  /** Changes what it is entitled to; what is not set stays. More is checked like a request. */
  public Allocation resize(String id, Resource entitled) {
    ObjectNode o = Json.object().put("id", id);
    o.set("entitled", entitled.toJson());
    return allocation(caller.call(ALLOCATIONS + "Resize", o, timeout));
  }

  /** Asks the host's agent to end the engine: SIGTERM, grace (null: 10 s), SIGKILL. */
  public Allocation stop(String id, Duration grace, String reason) {
    ObjectNode o = byId(id, reason);
    Json.putDuration(o, "grace", grace);
    return allocation(caller.call(ALLOCATIONS + "Stop", o, timeout));
  }

  /** One allocation, live or ended. Empty: the id is not known. */
  public Optional<Allocation> get(String id) {
    return find(Json.object().put("id", id));
  }

  /** The same by the id of the request. */
  public Optional<Allocation> getByRequestId(String requestId) {
    return find(Json.object().put("requestId", requestId));
  }

  private Optional<Allocation> find(ObjectNode by) {
    return orEmpty(() -> allocation(caller.call(ALLOCATIONS + "Get", by, timeout)));
  }

  /** A page of allocations; an empty token: the first page. */
  public Page<Allocation> allocations(AllocationFilter filter, String pageToken) {
    return allocations(filter, pageToken, timeout);
  }

  private Page<Allocation> allocations(AllocationFilter filter, String pageToken, Duration time) {
    return page(caller.call(ALLOCATIONS + "List", filter.toJson(pageToken), time), "allocations", Allocation::fromJson);
  }

  /**
   * All pages of allocations as one, at the revision of the first. The time for a call is that for
   * all of them, here and in the other calls for all pages.
   */
  public Page<Allocation> allAllocations(AllocationFilter filter) {
    return all((token, time) -> allocations(filter, token, time));
  }

  /** What a request would meet now. It changes nothing. */
  public Explanation explain(AllocateRequest request) {
    ObjectNode o = Json.object();
    o.set("request", request.toJson(request.requestId()));
    return caller.read(ALLOCATIONS + "Explain", o, timeout, Explanation::fromJson);
  }

  /** Why a request waits, or how it ended. */
  public Explanation explain(String id) {
    return caller.read(ALLOCATIONS + "Explain", Json.object().put("id", id), timeout, Explanation::fromJson);
  }

  /** A page of hosts; an empty token: the first page. */
  public Page<HostInfo> hosts(String pageToken) {
    return hosts(pageToken, timeout);
  }

  private Page<HostInfo> hosts(String pageToken, Duration time) {
    ObjectNode o = Json.object().put("pageSize", 500);
    Json.putText(o, "pageToken", pageToken);
    return page(caller.call(HOSTS + "List", o, time), "hosts", HostInfo::fromJson);
  }

  /** All hosts. */
  public Page<HostInfo> allHosts() {
    return all(this::hosts);
  }

  /** One host. Empty: there is no such host. */
  public Optional<HostInfo> host(String id) {
    return orEmpty(
        () -> caller.read(HOSTS + "Get", Json.object().put("id", id), timeout, n -> HostInfo.fromJson(n.path("host"))));
  }

  /** Stops new grants on a host; what runs goes on. */
  public HostInfo cordon(String hostId, String reason) {
    ObjectNode o = Json.object().put("hostId", hostId);
    Json.putText(o, "reason", cut(reason));
    return caller.read(HOSTS + "Cordon", o, timeout, n -> HostInfo.fromJson(n.path("host")));
  }

  /** Ends a cordon or a drain. */
  public HostInfo uncordon(String hostId) {
    ObjectNode o = Json.object().put("hostId", hostId);
    return caller.read(HOSTS + "Uncordon", o, timeout, n -> HostInfo.fromJson(n.path("host")));
  }

  /** A page of rules and their accounts; labels choose accounts; an empty token: the first page. */
  public QuotaPage quotas(Map<String, String> labels, String pageToken) {
    return quotas(labels, pageToken, timeout);
  }

  private QuotaPage quotas(Map<String, String> labels, String pageToken, Duration time) {
    ObjectNode o = Json.object().put("pageSize", 1000);
    Json.putLabels(o, "labels", labels);
    Json.putText(o, "pageToken", pageToken);
    return caller.read(QUOTAS + "List", o, time, BursarClient::quotaPage);
  }

  /** All rules and all their accounts. */
  public QuotaPage allQuotas() {
    List<Quota> quotas = new ArrayList<>();
    List<Account> accounts = new ArrayList<>();
    PageBounds bounds = new PageBounds(timeout);
    QuotaPage first = quotas(Collections.emptyMap(), "");
    for (QuotaPage p = first; ; p = quotas(Collections.emptyMap(), p.nextPageToken(), bounds.left())) {
      quotas.addAll(p.quotas());
      accounts.addAll(p.accounts());
      if (p.nextPageToken().isEmpty()) {
        return new QuotaPage(quotas, accounts, "", first.revision());
      }
      bounds.next(p.nextPageToken(), quotas.size() + accounts.size());
    }
  }

  private static QuotaPage quotaPage(JsonNode n) {
    List<Quota> quotas = new ArrayList<>();
    List<Account> accounts = new ArrayList<>();
    n.path("quotas").forEach(q -> quotas.add(Quota.fromJson(q)));
    n.path("accounts").forEach(a -> accounts.add(Account.fromJson(a)));
    return new QuotaPage(quotas, accounts, Json.text(n, "nextPageToken"), Json.longOr0(n, "revision"));
  }

  /** Adds a rule, or replaces the one with its selector; force: also for what nothing has yet. */
  public Quota putQuota(Quota quota, boolean force) {
    ObjectNode o = Json.object().put("force", force);
    o.set("quota", quota.toJson());
    return caller.read(QUOTAS + "Put", o, timeout, n -> Quota.fromJson(n.path("quota")));
  }

  /** Removes the rule with this selector. False: there was none. */
  public boolean deleteQuota(Map<String, String> selector) {
    ObjectNode o = Json.object();
    Json.putLabels(o, "selector", selector);
    return orEmpty(() -> caller.call(QUOTAS + "Delete", o, timeout)).isPresent();
  }

  /**
   * Puts a whole set of rules in one step, or none of them.
   *
   * @param source names the set; the rules carry it
   * @param prune remove the rules of this source that are not in the set
   * @param dryRun change nothing, and say what would change
   * @param force also for what nothing has yet
   */
  public QuotaChanges applyQuotas(String source, Collection<Quota> quotas, boolean prune, boolean dryRun, boolean force) {
    ObjectNode o = Json.object().put("source", source).put("prune", prune).put("dryRun", dryRun).put("force", force);
    ArrayNode a = o.putArray("quotas");
    quotas.forEach(q -> a.add(q.toJson()));
    return caller.read(QUOTAS + "Apply", o, timeout, QuotaChanges::fromJson);
  }

  /**
   * A queue of an external cluster, found as a request would find it: by its full path or its last
   * element; an empty cluster is the default one. INVALID_ARGUMENT: no such cluster is configured.
   * Empty: the cluster has no such queue.
   */
  public Optional<QueueInfo> queue(String kind, String cluster, String path) {
    ObjectNode o = Json.object().put("kind", kind).put("path", path);
    Json.putText(o, "cluster", cluster);
    return orEmpty(() -> caller.read(QUEUES + "Get", o, timeout, n -> QueueInfo.fromJson(n.path("queue"))));
  }

  /** The clusters that are configured, and whether they can be read. */
  public List<ProviderInfo> providers() {
    return caller.read(
        QUEUES + "ListProviders",
        Json.object(),
        timeout,
        n -> {
          List<ProviderInfo> list = new ArrayList<>();
          n.path("providers").forEach(p -> list.add(ProviderInfo.fromJson(p)));
          return list;
        });
  }

  /**
   * Follows allocations from a revision on (0: from now on) until the watch is closed. It goes on
   * by itself when a connection breaks or another coordinator leads.
   */
  public AllocationWatch watch(long afterRevision, AllocationWatch.Listener listener) {
    return AllocationWatch.start(caller, afterRevision, listener);
  }

  /** Ends all calls and closes the connections. */
  @Override
  public void close() {
    caller.close();
  }

  private static ObjectNode byId(String id, String reason) {
    ObjectNode o = Json.object().put("id", id);
    Json.putText(o, "reason", cut(reason));
    return o;
  }

  /** Reasons have at most 1024 characters. */
  private static String cut(String reason) {
    return reason == null || reason.length() <= 1000 ? reason : reason.substring(0, 1000) + "…";
  }

  private static Allocation allocation(JsonNode answer) {
    return Caller.decode(answer, n -> Allocation.fromJson(n.path("allocation")));
  }

  private static Optional<Allocation> optionalAllocation(JsonNode answer) {
    return answer.path("allocation").isObject() ? Optional.of(allocation(answer)) : Optional.empty();
  }

  private static <T> Optional<T> orEmpty(java.util.function.Supplier<T> call) {
    try {
      return Optional.of(call.get());
    } catch (BursarException e) {
      if (e.code() == BursarException.Code.NOT_FOUND) {
        return Optional.empty();
      }
      throw e;
    }
  }

  private static <T> Page<T> page(JsonNode answer, String field, Function<JsonNode, T> item) {
    return Caller.decode(
        answer,
        n -> {
          List<T> items = new ArrayList<>();
          n.path(field).forEach(i -> items.add(item.apply(i)));
          return new Page<>(items, Json.text(n, "nextPageToken"), Json.longOr0(n, "revision"));
        });
  }

  private <T> Page<T> all(BiFunction<String, Duration, Page<T>> pages) {
    PageBounds bounds = new PageBounds(timeout);
    Page<T> first = pages.apply("", timeout);
    List<T> items = new ArrayList<>(first.items());
    for (Page<T> p = first; !p.nextPageToken().isEmpty(); ) {
      bounds.next(p.nextPageToken(), items.size());
      p = pages.apply(p.nextPageToken(), bounds.left());
      items.addAll(p.items());
    }
    return new Page<>(items, "", first.revision());
  }

  private static Duration positive(String name, Duration d) {
    if (d.isNegative() || d.isZero()) {
      throw new IllegalArgumentException(name + " is " + d + ": use more than 0");
    }
    return d;
  }

  /** Builds a client. */
  public static final class Builder {
    private final List<String> urls = new ArrayList<>();
    private Path tokenFile;
    private Path tlsCa;
    private Duration callTimeout = Duration.ofSeconds(30);
    private Duration attemptTimeout = Duration.ofSeconds(10);
    private Duration connectTimeout = Duration.ofSeconds(2);
    private int maxConnections = 64;
    private int maxAnswerBytes = 32 << 20;

    private Builder() {}

    /** The coordinators, such as "https://rm-1:7070". */
    public Builder urls(String... urls) {
      return urls(Arrays.asList(urls));
    }

    /** The coordinators, such as "https://rm-1:7070". */
    public Builder urls(Collection<String> urls) {
      this.urls.addAll(urls);
      return this;
    }

    /** A file with the token, which is read again when it changes; null: none. */
    public Builder tokenFile(Path file) {
      tokenFile = file;
      return this;
    }

    /** A file with the certificates (PEM) that sign the servers'; null: those that Java trusts. */
    public Builder tlsCa(Path file) {
      tlsCa = file;
      return this;
    }

    /** How long a call may take with all attempts; default 30 s. */
    public Builder callTimeout(Duration timeout) {
      callTimeout = positive("callTimeout", timeout);
      return this;
    }

    /** How long one attempt may take before the next server is asked; default 10 s. */
    public Builder attemptTimeout(Duration timeout) {
      attemptTimeout = positive("attemptTimeout", timeout);
      return this;
    }

    /** How long a connection may take to be made; default 2 s. */
    public Builder connectTimeout(Duration timeout) {
      connectTimeout = positive("connectTimeout", timeout);
      return this;
    }

    /** How many connections there may be to each server; default 64. */
    public Builder maxConnections(int n) {
      maxConnections = n;
      return this;
    }

    /** The largest answer that is read; default 32 MiB. */
    public Builder maxAnswerBytes(int n) {
      maxAnswerBytes = n;
      return this;
    }

    /**
     * The client. It connects when it is first used.
     *
     * @throws IllegalArgumentException if a URL is wrong, there is none, or a token would cross
     *     a network over plain http
     */
    public BursarClient build() {
      if (urls.isEmpty()) {
        throw new IllegalArgumentException("urls: there are none: name at least one coordinator");
      }
      List<Transport> servers = HttpTransport.all(urls, tokenFile != null, tlsCa, connectTimeout, maxConnections);
      Token token = tokenFile == null ? null : new Token(tokenFile);
      return new BursarClient(new Caller(servers, token, attemptTimeout, maxAnswerBytes), callTimeout);
    }
  }
}
