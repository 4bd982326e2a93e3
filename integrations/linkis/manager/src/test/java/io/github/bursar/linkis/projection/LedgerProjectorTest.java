package io.github.bursar.linkis.projection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.when;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.FakeBursar;
import java.util.ArrayList;
import java.util.List;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.node.AMEMNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LedgerProjectorTest {
  private static final long GIB = 1L << 30;
  private static final String ECM = "emInstance {\"instance\":\"ecm-1:9102\",\"serviceName\":\"linkis-cg-engineconnmanager\"}";
  private static final String ALICE =
      "combined_userCreator_engineType {\"creator\":\"IDE\",\"user\":\"alice\",\"engineType\":\"spark\",\"version\":\"3.2.1\"}";
  private static final String LABELS = "'labels':{'system':'linkis','user':'alice','creator':'IDE','engineType':'spark','engineVersion':'3.2.1','tenant':'t1'}";

  private FakeBursar bursar;
  private BursarClient client;
  private FakeTables tables;
  private LedgerView ledger;
  private LedgerProjector projector;
  private final List<Node> ecms = new ArrayList<>();

  @BeforeEach
  void start() throws Exception {
    tables = new FakeTables();
    bursar = new FakeBursar();
    client = bursar.client();
    ledger = new LedgerView(client);
    projector = new LedgerProjector(tables.access(), ecm -> ecm.getInstance().split(":")[0], 1000);
    AMEMNode ecm = new AMEMNode();
    ServiceInstance instance = new ServiceInstance();
    instance.setApplicationName("linkis-cg-engineconnmanager");
    instance.setInstance("ecm-1:9102");
    ecm.setServiceInstance(instance);
    ecms.add(ecm);
    host("");
  }

  @AfterEach
  void stop() {
    if (bursar != null) {
      client.close();
      bursar.close();
    }
  }

  private void host(String more) {
    bursar.host(
        "ecm-1",
        "'account':{'limit':{'memoryBytes':'" + 16 * GIB + "','cpuMillis':'8000'},'protected':{'memoryBytes':'" + 2 * GIB + "'},"
            + "'used':{'memoryBytes':'" + 4 * GIB + "','cpuMillis':'1500','instances':'2'},'reserved':{'memoryBytes':'" + GIB
            + "','cpuMillis':'1000','instances':'1'},'available':{'memoryBytes':'" + 6 * GIB + "','cpuMillis':'5500'}}" + more);
  }

  private int project() throws Exception {
    return projector.project(ecms, ledger.hosts(), ledger.live().values(), ledger.quotas());
  }

  private static String load(long gib, int cores, int instances) {
    return ResourceUtils.serializeResource(new LoadInstanceResource(gib * GIB, cores, instances));
  }

  private static String row(String max, String min, String used, String locked, String left) {
    return "LoadInstance max " + max + " min " + min + " used " + used + " locked " + locked + " left " + left;
  }

  /** As an ECM registers with Linkis. */
  private void register() {
    CommonNodeResource r = new CommonNodeResource();
    r.setResourceType(ResourceType.LoadInstance);
    r.setMaxResource(new LoadInstanceResource(100 * GIB, 100, 50));
    r.setMinResource(new LoadInstanceResource(200 * GIB, 200, 2));
    r.setExpectedResource(new LoadInstanceResource(0, 0, 0));
    r.setUsedResource(new LoadInstanceResource(0, 0, 0));
    r.setLockedResource(new LoadInstanceResource(0, 0, 0));
    r.setLeftResource(new LoadInstanceResource(100 * GIB, 100, 50));
    var stored = ResourceUtils.toPersistenceResource(r);
    stored.setId(1000);
    tables.rows.put(ECM, stored);
  }

  @Test
  void theRowOfAnEcmIsItsHost() throws Exception {
    register();
    assertEquals(1, project());
    // what others on the host use is not left, a part of a core is a whole one in what is used
    assertEquals(row(load(16, 8, 50), load(200, 200, 2), load(4, 2, 2), load(1, 1, 1), load(6, 5, 47)), tables.row(ECM));
    assertEquals(load(100, 100, 50), tables.rows.get(ECM).getExpectedResource(), "what the ECM has registered is not lost");
  }

  @Test
  void anEcmWhoseRowIsGoneGetsOne() throws Exception {
    assertEquals(1, project());
    assertTrue(tables.row(ECM).startsWith("LoadInstance max " + load(16, 8, Integer.MAX_VALUE)), tables.rows.toString());
    assertEquals(0, project(), "what is read back is what was written");
  }

  @Test
  void theNumberOfEnginesThatAnEcmRegisteredWithStays() throws Exception {
    register();
    String busy = "'account':{'limit':{'memoryBytes':'100','cpuMillis':'8000'},'used':{'instances':'%d'},'available':{}}";
    for (int engines : new int[] {70, 3}) {
      bursar.host("ecm-1", String.format(busy, engines));
      project();
    }
    CommonNodeResource row = ResourceUtils.fromPersistenceResource(tables.rows.get(ECM));
    assertEquals(50, ((LoadInstanceResource) row.getMaxResource()).getInstances());
    assertEquals(47, ((LoadInstanceResource) row.getLeftResource()).getInstances());
  }

  @Test
  void aRowThatCannotBeReadDoesNotHoldUpTheOthers() throws Exception {
    register();
    tables.rows.get(ECM).setResourceType("nonsense");
    AMEMNode other = new AMEMNode();
    other.setServiceInstance(new ServiceInstance());
    other.getServiceInstance().setApplicationName("linkis-cg-engineconnmanager");
    other.getServiceInstance().setInstance("ecm-1:9103");
    ecms.add(other);
    bursar.allocation("A1", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "'}");
    assertEquals(2, project(), "the other ECM and the user");
  }

  @Test
  void aRowThatCannotBeReadDoesNotKeepOthersFromBeingHandedOver() throws Exception {
    register();
    host(",'unavailableReason':'returning'");
    project();
    var broken = ResourceUtils.toPersistenceResource(ResourceUtils.fromPersistenceResource(tables.rows.get(ECM)));
    broken.setId(1001);
    broken.setResourceType("nonsense");
    tables.rows.put(ECM.replace("ecm-1", "ecm-0"), broken); // comes first
    new HandOver(tables.access()).run();
    assertTrue(tables.row(ECM).endsWith("left " + load(95, 97, 47)), tables.row(ECM));
  }

  @Test
  void nothingIsWrittenIfNothingHasChanged() throws Exception {
    register();
    bursar.allocation("A1", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "','cpuMillis':'1000','instances':'1'}");
    assertEquals(2, project());
    assertEquals(0, project());
    assertEquals(0, new LedgerProjector(tables.access(), ecm -> ecm.getInstance().split(":")[0], 1000)
        .project(ecms, ledger.hosts(), ledger.live().values(), ledger.quotas()), "another manager");
    bursar.allocation("A2", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "','cpuMillis':'1000','instances':'1'}");
    assertEquals(1, project());
  }

  @Test
  void nothingIsLeftOnAHostThatTakesNothing() throws Exception {
    register();
    host(",'cordoned':true,'unavailableReason':'cordoned: repair'");
    project();
    assertTrue(tables.row(ECM).endsWith("left " + load(0, 0, 0)), tables.row(ECM));
  }

  @Test
  void stockCanCountOnWithTheRowThatIsHandedOver() throws Exception {
    register();
    host(",'unavailableReason':'returning'");
    project();
    new HandOver(tables.access()).run();
    // stock would register an ECM anew, with nothing used, if max were not what the ECM registers
    assertEquals(row(load(100, 100, 50), load(200, 200, 2), load(4, 2, 2), load(1, 1, 1), load(95, 97, 47)), tables.row(ECM));
    assertEquals(load(0, 0, 0), tables.rows.get(ECM).getExpectedResource(), "as an ECM registers it");
    int writes = tables.writes;
    new HandOver(tables.access()).run();
    assertEquals(writes, tables.writes);
    assertTrue(tables.held.isEmpty());
    when(tables.labels.getLabelByPattern(any(), any(), any(), any())).thenThrow(new IllegalStateException("no database"));
    new HandOver(tables.access()).run(); // is said
  }

  @Test
  void whatAnEcmHasRegisteredOutlivesTheManager() throws Exception {
    register();
    project(); // and is killed
    projector = new LedgerProjector(tables.access(), ecm -> ecm.getInstance().split(":")[0], 1000);
    host(",'cordoned':true,'unavailableReason':'cordoned: repair'");
    project();
    new HandOver(tables.access()).run();
    assertTrue(tables.row(ECM).startsWith("LoadInstance max " + load(100, 100, 50)), tables.row(ECM));
    // another manager that still decides, and an ECM that has been given more since
    project();
    assertTrue(tables.row(ECM).startsWith("LoadInstance max " + load(16, 8, 50)), tables.row(ECM));
    register();
    tables.rows.get(ECM).setMaxResource(load(120, 110, 60));
    project();
    new HandOver(tables.access()).run();
    assertTrue(tables.row(ECM).startsWith("LoadInstance max " + load(120, 110, 60)), tables.row(ECM));
  }

  @Test
  void anEcmOfTheSizeOfItsHostIsHandedOverToo() throws Exception {
    register();
    tables.rows.get(ECM).setMaxResource(load(16, 8, 50));
    project();
    assertEquals(0, project());
    new HandOver(tables.access()).run();
    assertEquals(row(load(16, 8, 50), load(200, 200, 2), load(4, 2, 2), load(1, 1, 1), load(11, 5, 47)), tables.row(ECM));
  }

  @Test
  void aRowThatBursarHasMadeIsHandedOverAsItIs() throws Exception {
    project();
    new HandOver(tables.access()).run();
    assertTrue(tables.row(ECM).startsWith("LoadInstance max " + load(16, 8, Integer.MAX_VALUE)), tables.row(ECM));
    assertTrue(tables.row(ECM).endsWith("left " + load(11, 5, Integer.MAX_VALUE - 3)), tables.row(ECM));
  }

  @Test
  void shadowBeginsWithRowsThatStockCanCountOnWith() throws Exception {
    register();
    host(",'unavailableReason':'returning'");
    project(); // and is killed
    tables.held.add(ECM.substring(ECM.indexOf(' ') + 1)); // with the lock of the row
    Thread stale = new Thread(() -> {
      try {
        Thread.sleep(500);
      } catch (InterruptedException e) {
        return;
      }
      tables.held.clear();
    });
    stale.start();
    var shadow = new ProjectionConfiguration().bursarHandOver(tables.labels, tables.resources, tables.labelResources, tables.locks);
    shadow.start();
    try {
      for (int i = 0; i < 100 && !tables.row(ECM).endsWith("left " + load(95, 97, 47)); i++) {
        Thread.sleep(100);
      }
      assertTrue(tables.row(ECM).endsWith("left " + load(95, 97, 47)), tables.row(ECM));
    } finally {
      shadow.stop();
      stale.join();
    }
  }

  @Test
  void aCombinationWithALabelThatLinkisCannotStoreIsPassedOver() throws Exception {
    String longName = "x".repeat(128);
    bursar.allocation("A1", "ACTIVE", LABELS.replace("alice", longName) + ",'entitled':{'memoryBytes':'" + GIB + "'}");
    bursar.allocation("A2", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "'}");
    ecms.clear();
    assertEquals(1, project());
    assertTrue(tables.rows.keySet().stream().noneMatch(n -> n.contains(longName)), tables.rows.keySet().toString());
    assertTrue(!tables.row(ALICE).equals("none"));
  }

  @Test
  void anEcmWithoutAnAgentHasNothingLeft() throws Exception {
    register();
    ecms.get(0).getServiceInstance().setInstance("ecm-1:9102");
    projector = new LedgerProjector(tables.access(), ecm -> "unknown", 1000);
    project();
    assertEquals(row(load(100, 100, 50), load(200, 200, 2), load(0, 0, 0), load(0, 0, 0), load(0, 0, 0)), tables.row(ECM));
  }

  @Test
  void theRowOfAUserIsWhatTheEnginesHaveAndTheTightestQuotaAllows() throws Exception {
    bursar.quota("{'selector':{'user':'*'},'limit':{'memoryBytes':'" + 12 * GIB + "'}}");
    bursar.quota("{'selector':{'system':'linkis','user':'*','creator':'*','engineType':'*','engineVersion':'*'},'limit':{'memoryBytes':'" + 20 * GIB
        + "','cpuMillis':'10000','instances':'10'}}");
    bursar.quota("{'selector':{'system':'linkis','user':'alice','creator':'IDE','engineType':'spark','engineVersion':'3.2.1'},'limit':{'memoryBytes':'"
        + 10 * GIB + "','cpuMillis':'4000','instances':'5'}}");
    bursar.quota("{'selector':{'tenant':'t2'},'limit':{'memoryBytes':'" + GIB + "'}}");
    // the tenant has one GiB left
    bursar.quota("{'selector':{'tenant':'t1'},'limit':{'memoryBytes':'" + 64 * GIB + "'}}");
    bursar.account("{'name':{'kind':'ACCOUNT_KIND_QUOTA','labels':{'tenant':'t1'}},'available':{'memoryBytes':'" + GIB + "'}}");
    bursar.allocation("A1", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + 3 * GIB + "','cpuMillis':'1000','instances':'1'}");
    bursar.allocation("A2", "RESERVED", LABELS + ",'entitled':{'memoryBytes':'" + 2 * GIB + "','cpuMillis':'500','instances':'1'}");
    bursar.allocation("A3", "WAITING", LABELS + ",'entitled':{'memoryBytes':'" + 2 * GIB + "','cpuMillis':'500','instances':'1'}");
    bursar.allocation(
        "A5", "ACTIVE", LABELS.replace("'system':'linkis',", "") + ",'entitled':{'memoryBytes':'" + GIB + "'}"); // not of Linkis
    bursar.allocation("A4", "ACTIVE", "'labels':{'user':'alice'},'entitled':{'memoryBytes':'" + 2 * GIB + "'}");
    project();
    assertEquals(row(load(10, 4, 5), load(0, 0, 0), load(3, 1, 1), load(2, 1, 1), load(1, 2, 3)), tables.row(ALICE));
    assertEquals("alice-IDE,spark-3.2.1", tables.rows.get(ALICE).getCreator());

    bursar.allocation("A1", "RELEASED", "");
    bursar.allocation("A2", "EXPIRED", "");
    project();
    assertTrue(tables.row(ALICE).contains("used " + load(0, 0, 0) + " locked " + load(0, 0, 0)), tables.row(ALICE));
    assertTrue(tables.row(ALICE).contains("max " + load(10, 4, 5)), "without engines, too: " + tables.row(ALICE));
  }

  @Test
  void aQueueIsInTheRowToo() throws Exception {
    bursar.quota("{'selector':{'system':'linkis','user':'*','creator':'*','engineType':'*','engineVersion':'*'},'limit':{'memoryBytes':'" + 8 * GIB
        + "','cpuMillis':'8000','instances':'9','external':[{'kind':'yarn','cluster':'*','path':'*','memoryBytes':'" + 30 * GIB
        + "','cpuMillis':'20000'}]}}");
    bursar.allocation("A0", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "','cpuMillis':'1000','instances':'1'}");
    project();
    assertTrue(tables.row(ALICE).startsWith("LoadInstance "));
    bursar.allocation("A1", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "','cpuMillis':'1000','instances':'1','external':["
        + "{'kind':'yarn','path':'root.dev','memoryBytes':'" + 10 * GIB + "','cpuMillis':'4000','instances':'3'}]}");
    project();
    String row = tables.row(ALICE);
    assertTrue(row.startsWith("DriverAndYarn max "), row);
    var used = ResourceUtils.fromPersistenceResource(tables.rows.get(ALICE));
    assertEquals("[{\"queueName\":\"root.dev\",\"queueMemory\":\"10.0 GB\",\"queueCpu\":4, \"instance\":3}]",
        "[" + ((org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource) used.getUsedResource()).getYarnResource().toJson() + "]");
    bursar.allocation("A1", "RELEASED", "");
    project();
    assertTrue(tables.row(ALICE).contains("root.dev"), "its row keeps the queue's name");
    assertEquals(0, project());
  }

  @Test
  void whileAnotherManagerAddsARowThisOneDoesNot() throws Exception {
    bursar.allocation("A1", "ACTIVE", LABELS + ",'entitled':{'memoryBytes':'" + GIB + "'}");
    register();
    tables.held.add("bursar-projector");
    assertEquals(1, project(), "that of the ECM is there already");
    assertEquals("none", tables.row(ALICE));
    tables.held.clear();
    assertEquals(1, project());
  }

  @Test
  void allocationsAreReadAgainOnlyIfTheLedgerHasChanged() {
    bursar.allocation("A1", "ACTIVE", LABELS);
    assertEquals(1, ledger.live().size());
    bursar.calls.clear();
    assertEquals(1, ledger.live().size());
    assertEquals(1, bursar.calls.size());
    bursar.allocation("A2", "ACTIVE", LABELS);
    assertEquals(2, ledger.live().size());
  }
}
