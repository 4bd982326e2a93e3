package io.github.bursar.linkis.allocation;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.Settings;
import io.github.bursar.linkis.clusters.AcrossClusterRule;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.ArrayList;
import java.util.List;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.apache.linkis.manager.rm.service.impl.DefaultResourceManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.config.AutowireCapableBeanFactory;

/**
 * The stock ResourceManager, and next to each of its decisions what Bursar would have said. What
 * stock
 * grants is booked in Bursar too, so that its answers are those of a Bursar that has all engines.
 * All
 * of that happens on {@link ShadowBooks}' threads: whatever goes wrong there changes nothing for
 * Linkis.
 */
public class ShadowResourceManager extends DefaultResourceManager implements DisposableBean {
  private static final Logger log = LoggerFactory.getLogger(ShadowResourceManager.class);

  private final ResourceMapper resources;
  private final LabelMapper labels;
  private final ShadowBooks books;
  private EngineRows rows;

  /** With whom it asks. */
  public ShadowResourceManager(BursarClient client, Settings settings, ResourceMapper resources, LabelMapper labels) {
    this.resources = resources;
    this.labels = labels;
    books = new ShadowBooks(client, settings.reservationTtl());
  }

  @Autowired
  void setBeans(AutowireCapableBeanFactory beans) {
    EngineRows r = new EngineRows();
    beans.autowireBean(r);
    rows = r;
  }

  /** What was counted so far. */
  public ShadowReport report() {
    return books.report();
  }

  @Override
  public void afterPropertiesSet() {
    super.afterPropertiesSet();
    books.report().publish();
  }

  @Override
  public void destroy() {
    books.close();
  }

  @Override
  public ResultResource requestResource(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request) {
    return requestResource(engineLabels, resource, request, -1);
  }

  @Override
  public ResultResource requestResource(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request, long wait) {
    // Made before stock decides, for it changes the labels and the resource.
    AllocateRequest.Builder asked = asked(engineLabels, resource);
    AcrossClusterRule rule = asked == null ? null : rule(engineLabels, resource, request);
    ResultResource stock = super.requestResource(engineLabels, resource, request, wait);
    if (asked != null) {
      if (stock instanceof AvailableResource) {
        books.granted(((AvailableResource) stock).ticketId(), asked, rule);
      } else {
        books.refused(stock instanceof NotEnoughResource ? ((NotEnoughResource) stock).reason() : "", asked, rule);
      }
    }
    return stock;
  }

  /** Null: it has none, or one that stock cannot read either. */
  private static AcrossClusterRule rule(List<Label<?>> engineLabels, NodeResource resource, EngineCreateRequest request) {
    try {
      return AcrossClusterRule.of(engineLabels, resource, request).orElse(null);
    } catch (RuntimeException e) {
      log.info("the rule of a task across clusters: {}", e.toString());
      return null;
    }
  }

  private AllocateRequest.Builder asked(List<Label<?>> engineLabels, NodeResource resource) {
    try {
      RMLabelContainer container = new RMLabelContainer(new ArrayList<>(engineLabels));
      return EngineRequests.of(labels, resources, container, resource);
    } catch (RuntimeException e) {
      books.report().notCompared(e.getMessage());
      return null;
    }
  }

  @Override
  public void resourceUsed(List<Label<?>> engineLabels, NodeResource usedResource) {
    super.resourceUsed(engineLabels, usedResource);
    try {
      EngineInstanceLabel engine = new RMLabelContainer(new ArrayList<>(engineLabels)).getEngineInstanceLabel();
      PersistenceResource stored = rows.resource(engine);
      Node node = rows.node(engine);
      if (stored != null && node != null) {
        books.used(stored.getTicketId(), engine.getInstance(), Pids.of(node));
      }
    } catch (RuntimeException e) {
      log.info("the shadow of an engine that runs: {}", e.toString());
    }
  }

  @Override
  public void resourceReleased(EngineNode engine) {
    String ticket = ticket(engine);
    super.resourceReleased(engine);
    if (ticket != null) {
      books.released(ticket);
    }
  }

  private String ticket(EngineNode engine) {
    try {
      EngineInstanceLabel label = new RMLabelContainer(new ArrayList<>(engine.getLabels())).getEngineInstanceLabel();
      PersistenceResource stored = label == null ? null : rows.resource(label);
      return stored == null ? engine.getTicketId() : stored.getTicketId();
    } catch (RuntimeException e) {
      log.info("the shadow of an engine that ended: {}", e.toString());
      return engine.getTicketId();
    }
  }
}
