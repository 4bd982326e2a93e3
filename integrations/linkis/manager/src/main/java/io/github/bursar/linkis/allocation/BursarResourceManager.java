package io.github.bursar.linkis.allocation;

import io.github.bursar.client.AccountName;
import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.ConfirmRequest;
import io.github.bursar.client.Explanation;
import io.github.bursar.client.HostInfo;
import io.github.bursar.client.Phase;
import io.github.bursar.client.Shortfall;
import io.github.bursar.linkis.Settings;
import io.github.bursar.linkis.clusters.AcrossClusterRule;
import io.github.bursar.linkis.clusters.UnknownQueueException;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.RefusalMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.common.conf.BDPConfiguration;
import org.apache.linkis.manager.am.vo.CanCreateECRes;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.exception.RMErrorException;
import org.apache.linkis.manager.common.exception.RMWarnException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.apache.linkis.manager.rm.exception.RMErrorCode;
import org.apache.linkis.manager.rm.service.impl.DefaultResourceManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.config.AutowireCapableBeanFactory;

/**
 * Linkis's ResourceManager whose decisions are Bursar's. It extends the stock one, since Linkis
 * injects that by its class, and inherits what reads rows (getResourceInfo) and locks of labels.
 */
public class BursarResourceManager extends DefaultResourceManager implements DisposableBean {
  private static final Logger log = LoggerFactory.getLogger(BursarResourceManager.class);
  // An engine whose pid nobody told: it lives until Linkis clears it, or this is over.
  private static final Duration LEASE = Duration.ofHours(24);

  private final BursarClient client;
  private final Settings settings;
  private final ResourceMapper resources;
  private final LabelMapper labels;
  private final RefusalMapper refusals;
  private final Releases releases;
  private final Waiters waiters = new Waiters(createThreads());
  private EngineRows rows;

  /** How long an ECM's agent is waited for: the two start together. */
  Duration agentComes = Duration.ofSeconds(15);

  /** With what it asks, and how. */
  public BursarResourceManager(BursarClient client, Settings settings, ResourceMapper resources, LabelMapper labels) {
    this.client = client;
    this.settings = settings;
    this.resources = resources;
    this.labels = labels;
    refusals = new RefusalMapper(settings.cpuMillisPerCore());
    releases = new Releases(client);
  }

  /** The size of Linkis's pool of threads that create engines. */
  private static int createThreads() {
    String said = BDPConfiguration.get("wds.linkis.ecm.launch.max.thread.size", (String) null);
    return said != null && said.trim().matches("[1-9][0-9]{0,4}") ? Integer.parseInt(said.trim()) : 200;
  }

  @Autowired
  void setBeans(AutowireCapableBeanFactory beans) {
    EngineRows r = new EngineRows();
    beans.autowireBean(r);
    setRows(r);
  }

  void setRows(EngineRows rows) {
    this.rows = rows;
  }

  /** The stock bean exists next to this one, and clears old locks. */
  @Override
  public void afterPropertiesSet() {
    log.info("Bursar at {} decides about engines", settings.urls());
  }

  @Override
  public void destroy() {
    releases.close();
  }

  /** An ECM comes. Without an agent on its host nobody would measure there, so it is refused. */
  @Override
  public void register(ServiceInstance ecm, NodeResource resource) {
    String hostId = labels.host(ecm.getInstance());
    HostInfo host = awaitHost(ecm, hostId);
    if (host.state() != HostInfo.State.HEALTHY) {
      log.warn("ECM {} registers, and {} takes no engines now", ecm, host);
    }
    EMInstanceLabel label = ecmLabel(ecm);
    // Its engines run on. LedgerProjector's next pass would put them in; this manager may end before.
    NodeResource before = rows.resources.getLabelResource(label);
    if (before != null) {
      resource.setUsedResource(before.getUsedResource());
      resource.setLockedResource(before.getLockedResource());
    }
    rows.resources.removeResourceByLabel(label);
    rows.resources.setLabelResource(label, resource, label.getStringValue());
    log.info("ECM {} is on Bursar's host {}, which may give away {}", ecm, hostId, host.account().limit());
  }

  private HostInfo awaitHost(ServiceInstance ecm, String hostId) {
    long end = System.nanoTime() + agentComes.toNanos();
    while (true) {
      Optional<HostInfo> host = ask("register " + ecm.getInstance(), () -> client.host(hostId));
      if (host.isPresent()) {
        return host.get();
      }
      if (System.nanoTime() - end > 0) {
        String message =
            "ECM " + ecm.getInstance() + " is refused: Bursar has no host \"" + hostId + "\": start bursar agent there,"
                + " or say in linkis.bursar.host.map which of its hosts this is";
        log.error(message);
        throw new RMErrorException(RMErrorCode.ECM_RESOURCE_INSUFFICIENT.getErrorCode(), message);
      }
      try {
        TimeUnit.MILLISECONDS.sleep(500);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw LinkisErrors.retry("interrupted while " + hostId + " was waited for");
      }
    }
  }

  /** An ECM goes. Its engines are its host's agent's to look after. */
  @Override
  public void unregister(ServiceInstance ecm) {
    rows.resources.removeResourceByLabel(ecmLabel(ecm));
    log.info("ECM {} has gone", ecm);
  }

  private static EMInstanceLabel ecmLabel(ServiceInstance ecm) {
    EMInstanceLabel label = LabelBuilderFactoryContext.getLabelBuilderFactory().createLabel(EMInstanceLabel.class);
    label.setServiceName(ecm.getApplicationName());
    label.setInstance(ecm.getInstance());
    return label;
  }

  @Override
  public ResultResource requestResource(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request) {
    return requestResource(engineLabels, resource, request, -1);
  }

  /**
   * Asks for an engine. It waits as long as its caller, and at most wait.max. A thread of Linkis's
   * creation pool is held meanwhile, so only some of them wait. A request with a rule for tasks across
   * clusters does not wait.
   */
  @Override
  public ResultResource requestResource(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request, long wait) {
    RMLabelContainer container = rows.resources.enrichLabels(engineLabels);
    resource.setLockedResource(resource.getMinResource());
    AllocateRequest.Builder asked = asked(container, resource);
    Optional<AcrossClusterRule> rule = rule(container, resource, request);
    Optional<RMWarnException> broken = rule.flatMap(r -> broken(r, container, asked));
    if (broken.isPresent()) {
      return new NotEnoughResource(broken.get().getMessage());
    }
    // After a wait the figures that the rule was judged by are old. Its caller asks again.
    long millis = rule.isPresent() ? 0 : Math.min(Math.max(0, wait), settings.waitMax().toMillis());
    Allocation granted;
    try {
      String user = String.valueOf(asked.build().labels().get("user"));
      asked.reservationTtl(settings.reservationTtl());
      granted = waiters.waiting(user, millis, ms -> client.allocate(asked.waitTime(Duration.ofMillis(ms)).build()));
    } catch (BursarException e) {
      if (e.code() == BursarException.Code.RESOURCE_EXHAUSTED && e.refusal().isPresent()) {
        return new NotEnoughResource(
            refusals.refusal(container.getEMInstanceLabel().getInstance(), e.refusal().get()).getMessage());
      }
      throw LinkisErrors.of("request of an engine", e);
    }
    try {
      rows.granted(container, granted.id(), resource);
    } catch (RuntimeException e) {
      log.error("{} was granted and cannot be recorded: it is given back", granted.id(), e);
      releases.release(granted.id(), "linkis could not record it");
      throw e;
    }
    return new AvailableResource(granted.id());
  }

  /** The rule of a task that may run in one of two clusters; empty: it has none. */
  private static Optional<AcrossClusterRule> rule(RMLabelContainer container, NodeResource resource, EngineCreateRequest request) {
    try {
      return AcrossClusterRule.of(container.getLabels(), resource, request);
    } catch (IllegalArgumentException e) {
      throw LinkisErrors.wrong("request of an engine: " + e.getMessage());
    }
  }

  /** The refusal of a task whose rule is broken; empty: it is not. */
  private Optional<RMWarnException> broken(AcrossClusterRule rule, RMLabelContainer container, AllocateRequest.Builder asked) {
    try {
      return rule.broken(client).map(broken -> shortBefore(rule, container, asked).orElse(broken));
    } catch (BursarException e) {
      throw LinkisErrors.of("rule for a task across clusters", e);
    } catch (UnknownQueueException e) {
      throw e.passes() ? LinkisErrors.retry(e.getMessage()) : LinkisErrors.wrong(e.getMessage());
    }
  }

  /**
   * What Linkis would name before a broken rule: the ECM, and what the queue has left if the rule is
   * the target cluster's.
   */
  private Optional<RMWarnException> shortBefore(AcrossClusterRule rule, RMLabelContainer container, AllocateRequest.Builder asked) {
    Explanation said = client.explain(asked.build());
    List<Shortfall> before = said.shortfalls().stream()
        .filter(s -> s.account().kind() == AccountName.Kind.HOST || rule.ofTarget() && s.account().kind() == AccountName.Kind.QUEUE)
        .collect(Collectors.toList());
    return before.isEmpty()
        ? Optional.empty()
        : Optional.of(refusals.refusal(
            container.getEMInstanceLabel().getInstance(), before, said.verdict() == Explanation.Verdict.NEVER, said.summary()));
  }

  private AllocateRequest.Builder asked(RMLabelContainer container, NodeResource resource) {
    return EngineRequests.of(labels, resources, container, resource);
  }

  /** What a request would meet, without asking for it. */
  @Override
  public CanCreateECRes canRequestResource(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request) {
    RMLabelContainer container = rows.resources.enrichLabels(engineLabels);
    AllocateRequest.Builder asked = asked(container, resource);
    Explanation said = ask("check of an engine", () -> client.explain(asked.build()));
    CanCreateECRes answer = new CanCreateECRes();
    answer.setRequestResource(ResourceUtils.serializeResource(resource.getMinResource()));
    Availability.show(answer, said.accounts(), resources, resource.getResourceType());
    boolean fits = said.verdict() == Explanation.Verdict.FITS;
    answer.setCanCreateEC(fits);
    if (!fits) {
      boolean never = said.verdict() == Explanation.Verdict.NEVER;
      answer.setReason(
          refusals.refusal(container.getEMInstanceLabel().getInstance(), said.shortfalls(), never, said.summary()).getMessage());
    }
    return answer;
  }

  /**
   * An engine runs, and can take tasks: it is ready. The ECM's side has confirmed it by its pid; if
   * it has not, this gives it a lease. The pid that the engine itself tells is not used: a false one would bind what it holds
   * to a process of somebody else. A part in a queue becomes smaller if the engine says so.
   */
  @Override
  public void resourceUsed(List<Label<?>> engineLabels, NodeResource usedResource) {
    RMLabelContainer container = rows.resources.enrichLabels(engineLabels);
    PersistenceResource stored = container.getEngineInstanceLabel() == null ? null : rows.resource(container.getEngineInstanceLabel());
    if (stored == null) {
      throw notFound("no resource of the engine " + container.getEngineInstanceLabel());
    }
    String ticket = stored.getTicketId();
    Resource reported = usedResource == null ? null : usedResource.getUsedResource();
    List<String> applications = ResourceMapper.applicationIds(reported);
    confirm(ticket, container.getEngineInstanceLabel().getInstance(), applications, reported);
    NodeResource row = ResourceUtils.fromPersistenceResource(stored);
    Resource held = zero(row.getLockedResource()) ? row.getUsedResource() : row.getLockedResource();
    rows.used(container, stored, row, Entitlement.withApplication(held, applications));
  }

  private static boolean zero(Resource r) {
    return r == null || r.equalsTo(Resource.getZeroResource(r));
  }

  private void confirm(String ticket, String address, List<String> applications, Resource reported) {
    if (!applications.isEmpty() || Entitlement.inQueue(reported)) {
      confirmInQueue(ticket, address, applications, reported);
      return;
    }
    try {
      client.confirm(ConfirmRequest.builder(ticket).address(address).lease(LEASE).phase(Phase.READY).build());
    } catch (BursarException e) {
      if (e.code() != BursarException.Code.FAILED_PRECONDITION && e.code() != BursarException.Code.NOT_FOUND) {
        throw LinkisErrors.of("confirmation of " + ticket, e);
      }
      Allocation now = holding(ticket, address); // confirmed by its pid already
      if (now.state() != AllocationState.ACTIVE) {
        throw LinkisErrors.of("confirmation of " + ticket, e);
      }
      ready(now, address);
    }
  }

  /** Says that an engine that was confirmed by its pid can be used. */
  private void ready(Allocation now, String address) {
    if (now.pid() == 0) {
      return;
    }
    try {
      client.confirm(ConfirmRequest.builder(now.id()).address(address).pid(now.pid()).phase(Phase.READY).build());
    } catch (BursarException e) {
      log.warn("it could not be said that engine {} is ready: {}", now.id(), e.getMessage());
    }
  }

  /** What is entitled in a queue has the queue's full name, which the allocation has. */
  private void confirmInQueue(String ticket, String address, List<String> applications, Resource reported) {
    Allocation now = holding(ticket, address);
    if (now.state() == AllocationState.ACTIVE && applications.isEmpty()) {
      ready(now, address);
      return;
    }
    ConfirmRequest.Builder c = ConfirmRequest.builder(ticket).address(address).applicationIds(applications).phase(Phase.READY);
    if (now.state() == AllocationState.ACTIVE && now.pid() != 0) {
      c.pid(now.pid()); // the agent's
    } else if (applications.isEmpty() || now.entitled().external().isEmpty()) {
      c.lease(LEASE);
    }
    if (now.state() == AllocationState.RESERVED) {
      Entitlement.smaller(now.entitled(), reported).ifPresent(c::entitled);
    }
    ask("confirmation of " + ticket, () -> client.confirm(c.build()));
  }

  /** The allocation, which is reserved or active; else the engine has nothing. */
  private Allocation holding(String ticket, String address) {
    Allocation now = ask("confirmation of " + ticket, () -> client.get(ticket)).orElse(null);
    if (now == null || now.state().ended() || now.state() == AllocationState.WAITING) {
      throw notFound(
          "the engine " + address + " has no resources on Bursar: " + (now == null ? ticket + " is not known" : now + ", " + now.reason()));
    }
    return now;
  }

  /** An engine is gone, or Linkis takes it for gone. */
  @Override
  public void resourceReleased(EngineNode engine) {
    RMLabelContainer container = rows.resources.enrichLabels(engine.getLabels());
    if (container.getEngineInstanceLabel() == null) {
      throw notFound("the engine " + engine.getServiceInstance() + " has no instance label");
    }
    String reason = "linkis: " + (engine.getNodeStatus() == null ? "cleared" : engine.getNodeStatus());
    PersistenceResource stored;
    try {
      stored = rows.resource(container.getEngineInstanceLabel());
    } catch (RuntimeException e) { // Linkis swallows it, and the engine's node goes
      if (known(engine.getTicketId())) {
        releases.begin(engine.getTicketId(), reason).run();
      }
      throw e;
    }
    String ticket = stored != null ? stored.getTicketId() : engine.getTicketId();
    if (!known(ticket)) {
      throw notFound("no resource of the engine " + container.getEngineInstanceLabel());
    }
    // The rows go meanwhile: they do whatever Bursar answers.
    Runnable answered = releases.begin(ticket, reason);
    try {
      if (stored != null) {
        NodeResource row = ResourceUtils.fromPersistenceResource(stored);
        rows.released(container, stored, engine, zero(row.getUsedResource()) ? row.getLockedResource() : row.getUsedResource());
      }
    } finally {
      answered.run();
    }
  }

  private static boolean known(String ticket) {
    return ticket != null && !ticket.isEmpty();
  }

  /**
   * Linkis would write what it counted itself. The rows follow Bursar's ledger, so there is nothing
   * to reset.
   */
  @Override
  public void resetResource(PersistenceLabel label, NodeResource resource) {
    log.info("reset of {} changes nothing: its row follows Bursar's ledger", label == null ? "?" : label.getStringValue());
  }

  private static <T> T ask(String what, java.util.function.Supplier<T> call) {
    try {
      return call.get();
    } catch (BursarException e) {
      throw LinkisErrors.of(what, e);
    }
  }

  private static RMErrorException notFound(String message) {
    return new RMErrorException(RMErrorCode.LABEL_RESOURCE_NOT_FOUND.getErrorCode(), message);
  }
}
