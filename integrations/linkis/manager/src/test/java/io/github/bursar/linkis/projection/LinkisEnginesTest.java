package io.github.bursar.linkis.projection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.doThrow;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.am.service.ECResourceInfoService;
import org.apache.linkis.manager.am.service.EMEngineService;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.metrics.AMNodeMetrics;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.entity.persistence.ECResourceInfoRecord;
import org.apache.linkis.manager.common.protocol.engine.EngineStopRequest;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LinkisEnginesTest {
  private final NodeManagerPersistence nodes = mock(NodeManagerPersistence.class);
  private final NodeMetricManagerPersistence metrics = mock(NodeMetricManagerPersistence.class);
  private final NodeLabelService labels = mock(NodeLabelService.class);
  private final EngineStopService stop = mock(EngineStopService.class);
  private final EMEngineService ecms = mock(EMEngineService.class);
  private final ECResourceInfoService records = mock(ECResourceInfoService.class);
  private final Map<String, EngineNode> rows = new HashMap<>();
  private final List<String> cleared = new ArrayList<>();
  private FakeTables tables;
  private LinkisEngines engines;

  @BeforeEach
  void start() throws Exception {
    tables = new FakeTables();
    engines = new LinkisEngines(nodes, metrics, labels, stop, ecms, records, tables.access());
    when(nodes.getEngineNodeByTicketId(any())).thenAnswer(call -> rows.get(call.<String>getArgument(0)));
    when(nodes.getEngineNode(any())).thenAnswer(call -> rows.values().stream()
        .filter(n -> n.getServiceInstance().equals(call.getArgument(0))).findFirst().orElse(null));
    doAnswer(call -> {
      EngineNode n = call.getArgument(0);
      rows.remove(n.getTicketId());
      cleared.add(n.getTicketId() + " " + n.getNodeStatus());
      return null;
    }).when(stop).engineConnInfoClear(any());
    doAnswer(call -> {
      EngineStopRequest r = call.getArgument(0);
      rows.values().removeIf(n -> n.getServiceInstance().equals(r.getServiceInstance()));
      return null;
    }).when(stop).stopEngine(any(), any());
  }

  private AMEngineNode engine(String ticket, String instance, NodeStatus status) {
    AMEngineNode n = new AMEngineNode();
    ServiceInstance s = new ServiceInstance();
    s.setApplicationName("linkis-cg-engineconn");
    s.setInstance(instance);
    n.setServiceInstance(s);
    n.setTicketId(ticket);
    rows.put(ticket, n);
    if (status != null) {
      AMNodeMetrics m = new AMNodeMetrics();
      m.setStatus(status.ordinal());
      when(metrics.getNodeMetrics((Node) n)).thenReturn(m);
    }
    return n;
  }

  /** An engine's user can say so at the agent, and an engine of itself. */
  @Test
  void itsEcmIsAskedThoughItIsSaidToHaveEnded() {
    engine("A1", "ecm-1:9900", NodeStatus.Busy);
    assertEquals(LinkisEngines.Ended.STOPPED, engines.end("A1", true, true, true));
    engine("A2", "ecm-1:9900", NodeStatus.Success);
    assertEquals(LinkisEngines.Ended.STOPPED, engines.end("A2", false, true, false));
    engine("A3", "ecm-1:9900", NodeStatus.Busy);
    assertEquals(LinkisEngines.Ended.STOPPED, engines.end("A3", true, true, false));
    verify(ecms, times(3)).stopEngine(any(), any());
    assertEquals(List.of("A1 Success", "A2 Success", "A3 Failed"), cleared, "how it ended");
  }

  @Test
  void anEcmThatWouldSignalAnyPidIsNotAskedThen() {
    engine("A1", "ecm-1:9900", NodeStatus.Busy);
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A1", true, false, false));
    engine("A2", "ecm-1:9900", NodeStatus.ShuttingDown);
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A2", false, false, false));
    verify(stop, never()).stopEngine(any(), any());
    verify(ecms, never()).stopEngine(any(), any());
    engine("A3", "ecm-1:9900", NodeStatus.Busy);
    assertEquals(LinkisEngines.Ended.STOPPED, engines.end("A3", false, false, false));
    assertEquals(List.of("A1 Failed", "A2 ShuttingDown"), cleared);
  }

  @Test
  void oneThatIsSaidToHaveEndedIsClearedIfItsEcmIsAway() {
    doThrow(new IllegalStateException("no such instance")).when(stop).stopEngine(any(), any());
    doThrow(new IllegalStateException("no such instance")).when(ecms).stopEngine(any(), any());
    engine("A1", "ecm-1:9900", NodeStatus.Busy);
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A1", true, true, false));
    engine("A2", "ecm-1:9900", null);
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A2", true, true, true));
    engine("A3", "ecm-1:9900", NodeStatus.ShuttingDown);
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A3", false, true, false));
    assertEquals(List.of("A1 Failed", "A2 Success", "A3 ShuttingDown"), cleared);
    engine("A4", "ecm-1:9900", NodeStatus.Busy);
    assertThrows(IllegalStateException.class, () -> engines.end("A4", false, true, false));
    assertEquals(1, rows.size(), "nobody knows whether it runs");
  }

  @Test
  void oneThatMayRunIsStoppedByItsEcm() {
    engine("A1", "ecm-1:9900", NodeStatus.Unlock);
    assertEquals(LinkisEngines.Ended.STOPPED, engines.end("A1", false, true, false));
    verify(stop).stopEngine(any(), any());
    assertEquals(List.of(), cleared, "stopEngine has done that");
  }

  @Test
  void ifItsEcmCannotStopItItsRowsAreClearedAllTheSame() {
    engine("A1", "ecm-1:9900", NodeStatus.Unlock);
    doAnswer(call -> null).when(stop).stopEngine(any(), any());
    assertEquals(LinkisEngines.Ended.CLEARED, engines.end("A1", false, true, false));
    assertEquals(List.of("A1 Failed"), cleared);
  }

  @Test
  void theEngineThatHasItsAddressNowIsLeftAlone() {
    engine("A2", "ecm-1:9900", NodeStatus.Unlock);
    assertEquals(LinkisEngines.Ended.GONE, engines.end("A1", true, true, false));
    assertEquals(List.of(), cleared);
    assertEquals(1, rows.size());
  }

  @Test
  void oneManagerEndsIt() {
    engine("A1", "ecm-1:9900", NodeStatus.Unlock);
    tables.held.add("bursar-ended-A1");
    assertThrows(IllegalStateException.class, () -> engines.end("A1", true, true, false));
    assertEquals(List.of(), cleared);
    tables.held.clear();
    engines.end("A1", true, true, false);
    assertEquals(0, tables.held.size(), "the lock is given back");
  }

  @Test
  void anEngineIsOursIfLinkisHasRecordedIt() {
    when(records.getECResourceInfoRecord("A1")).thenReturn(new ECResourceInfoRecord());
    assertEquals(true, engines.wasOurs("A1"));
    assertEquals(false, engines.wasOurs("A2"));
  }
}
