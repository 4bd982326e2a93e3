package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationFilter;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarServer;
import io.github.bursar.client.Quota;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.Settings;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/** Linkis's rows in memory, Bursar as it is. */
abstract class ManagerFixture {
  static final long MIB = 1L << 20;
  static BursarServer server;
  static BursarClient bursar;
  static String host;

  FakeLinkis linkis;
  BursarResourceManager manager;

  @BeforeAll
  static void start() throws Exception {
    server = BursarServer.dev();
    bursar = BursarClient.builder().urls(server.url()).build();
    while (bursar.allHosts().items().isEmpty()) {
      Thread.sleep(50);
    }
    host = bursar.allHosts().items().get(0).id();
  }

  @AfterAll
  static void stop() {
    bursar.close();
    server.close();
  }

  @BeforeEach
  void fresh() {
    linkis = new FakeLinkis();
    manager = manager(bursar, Map.of());
  }

  @AfterEach
  void end() {
    manager.destroy();
    for (Allocation a : bursar.allAllocations(AllocationFilter.live()).items()) {
      bursar.release(a.id(), "test is over");
    }
  }

  BursarResourceManager manager(BursarClient client, Map<String, String> more) {
    Map<String, String> m = new HashMap<>(Map.of("url", server.url(), "mode", "enforce", "cpu.millis.per.core", "10"));
    m.putAll(more);
    Settings s = Settings.of(m);
    BursarResourceManager r = new BursarResourceManager(client, s, new ResourceMapper(s.cpuMillisPerCore()), new LabelMapper(s));
    r.setRows(linkis.rows());
    return r;
  }

  static List<Label<?>> labels(String user) {
    UserCreatorLabel u = new UserCreatorLabel();
    u.setUser(user);
    u.setCreator("IDE");
    EngineTypeLabel e = new EngineTypeLabel();
    e.setEngineType("shell");
    e.setVersion("1");
    EMInstanceLabel em = new EMInstanceLabel();
    em.setServiceName("linkis-cg-engineconnmanager");
    em.setInstance(host + ":9102");
    return new ArrayList<>(List.of(u, e, em));
  }

  static NodeResource asks(long mib, int cores) {
    CommonNodeResource r = new CommonNodeResource();
    r.setResourceType(ResourceType.LoadInstance);
    r.setMinResource(new LoadInstanceResource(mib * MIB, cores, 1));
    r.setMaxResource(new LoadInstanceResource(mib * MIB, cores, 1));
    return r;
  }

  String granted(String user, long mib) {
    ResultResource r = manager.requestResource(labels(user), asks(mib, 1), new EngineCreateRequest(), 0);
    return assertInstanceOf(AvailableResource.class, r).ticketId();
  }

  static Allocation allocation(String ticket) {
    return bursar.get(ticket).get();
  }

  static List<Label<?>> with(List<Label<?>> labels, Label<?> more) {
    labels.add(more);
    return labels;
  }

  static EngineNode gone(String user, EngineInstanceLabel engine, String identifier) {
    AMEngineNode n = new AMEngineNode();
    n.setServiceInstance(engine.getServiceInstance());
    n.setLabels(with(labels(user), engine));
    n.setNodeStatus(NodeStatus.Success);
    n.setIdentifier(identifier);
    return n;
  }

  static NodeResource used() {
    CommonNodeResource r = new CommonNodeResource();
    r.setUsedResource(new LoadInstanceResource(1, 1, 1));
    return r;
  }

  static void limit(String user, long mib) {
    bursar.putQuota(Quota.builder(Map.of("user", user)).limit(Resource.builder().memoryBytes(mib * MIB).build()).build(), false);
  }

  void agentConfirms(String ticket, Process process) throws Exception {
    for (int i = 0; ; i++) { // the agent hears of the grant with its next report
      try {
        BursarServer.run(List.of(BursarServer.binary(), "confirm", ticket, "--pid", Long.toString(process.pid()), "--agent", server.agentSocket()));
        return;
      } catch (IllegalStateException e) {
        assertTrue(i < 50, e.getMessage());
        Thread.sleep(100);
      }
    }
  }

  static NodeResource locked() {
    NodeResource r = asks(64, 1);
    r.setLockedResource(r.getMinResource());
    return r;
  }
}
