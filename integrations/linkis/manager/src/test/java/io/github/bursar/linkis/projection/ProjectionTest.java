package io.github.bursar.linkis.projection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.FakeBursar;
import java.time.Duration;
import java.util.List;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.am.service.ECResourceInfoService;
import org.apache.linkis.manager.am.service.EMEngineService;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.common.entity.node.AMEMNode;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.junit.jupiter.api.Test;

class ProjectionTest {
  @Test
  void whileBursarIsAwayRowsStayAndEnginesToo() throws Exception {
    FakeTables tables = new FakeTables();
    NodeManagerPersistence nodes = mock(NodeManagerPersistence.class);
    EngineStopService stop = mock(EngineStopService.class);
    LinkisEngines engines =
        new LinkisEngines(
            nodes, mock(NodeMetricManagerPersistence.class), mock(NodeLabelService.class), stop, mock(EMEngineService.class),
            mock(ECResourceInfoService.class), tables.access());
    AMEMNode ecm = new AMEMNode();
    ecm.setServiceInstance(instance("linkis-cg-engineconnmanager", "ecm-1:9102"));
    AMEngineNode engine = new AMEngineNode();
    engine.setServiceInstance(instance("linkis-cg-engineconn", "ecm-1:9900"));
    engine.setTicketId("A1");
    when(nodes.getAllNodes()).thenReturn(List.of(ecm, engine));
    when(nodes.getEngineNodeByTicketId("A1")).thenReturn(engine);
    try (FakeBursar bursar = new FakeBursar(); BursarClient client = bursar.client(Duration.ofMillis(500))) {
      bursar.host("ecm-1", "'account':{'limit':{'memoryBytes':'100'},'available':{'memoryBytes':'100'}}");
      bursar.allocation("A1", "ACTIVE", "'process':{'pid':11}");
      Projection projection =
          new Projection(
              engines,
              new LedgerView(client),
              new EndedWatcher(engines, client, Runnable::run),
              new LedgerProjector(tables.access(), e -> e.getInstance().split(":")[0], 1000));
      projection.run();
      assertEquals(1, tables.writes);

      bursar.down = true;
      bursar.host("ecm-1", "'account':{'limit':{'memoryBytes':'200'},'available':{'memoryBytes':'200'}}");
      bursar.allocation("A1", "RELEASED", "'process':{'pid':11}");
      projection.run();
      projection.run();
      assertEquals(1, tables.writes);
      verify(stop, times(0)).engineConnInfoClear(any());

      bursar.down = false;
      projection.run();
      assertEquals(2, tables.writes);
      verify(stop, times(1)).engineConnInfoClear(any());

      when(nodes.getAllNodes()).thenThrow(new IllegalStateException("no database"));
      projection.run(); // is said, and nothing else
      assertEquals(2, tables.writes);
    }
  }

  @Test
  void anErrorEndsAStepAndNotThePass() throws Exception {
    NodeManagerPersistence nodes = mock(NodeManagerPersistence.class);
    when(nodes.getAllNodes()).thenThrow(new NoSuchMethodError("of another Linkis"));
    LinkisEngines engines = new LinkisEngines(nodes, null, null, null, null, null, null);
    new Projection(engines, null, null, null).run();
    verify(nodes, times(2)).getAllNodes();
  }

  private static ServiceInstance instance(String name, String address) {
    ServiceInstance s = new ServiceInstance();
    s.setApplicationName(name);
    s.setInstance(address);
    return s;
  }
}
