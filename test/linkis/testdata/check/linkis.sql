-- What bursar-linkis-check reads, with the names and types that Linkis 1.8.0 has.
CREATE DATABASE linkis;
CREATE USER reader@'%' IDENTIFIED BY 'open-sesame';
GRANT SELECT ON linkis.* TO reader@'%';
CREATE USER stranger@'%' IDENTIFIED BY 'open-sesame';
USE linkis;
CREATE TABLE linkis_cg_manager_label (id int PRIMARY KEY, label_key varchar(32) NOT NULL, label_value varchar(128) NOT NULL);
CREATE TABLE linkis_cg_manager_label_resource (id int PRIMARY KEY, label_id int, resource_id int);
CREATE TABLE linkis_cg_manager_linkis_resources (id int PRIMARY KEY, max_resource varchar(1020), resourceType varchar(255));
CREATE TABLE linkis_cg_manager_service_instance (id int PRIMARY KEY, instance varchar(128), name varchar(32), mark varchar(32), identifier varchar(32), ticketId varchar(255));
CREATE TABLE linkis_ps_configuration_config_key (id bigint PRIMARY KEY, `key` varchar(50), default_value varchar(200));
CREATE TABLE linkis_ps_configuration_config_value (id bigint PRIMARY KEY, config_key_id bigint, config_value varchar(500), config_label_id int);
CREATE TABLE linkis_cg_tenant_label_config (id int PRIMARY KEY, user varchar(50), creator varchar(50), tenant_value varchar(128), is_valid varchar(1));
CREATE TABLE linkis_cg_rm_external_resource_provider (id int PRIMARY KEY, resource_type varchar(32), name varchar(32), config text);
CREATE TABLE linkis_ps_configuration_across_cluster_rule (id int PRIMARY KEY, cluster_name char(32), creator char(32), username char(32), rules varchar(512), is_valid varchar(2));

INSERT INTO linkis_cg_manager_label VALUES
  (1, 'emInstance', '{"instance":"vm-one:9102","serviceName":"linkis-cg-engineconnmanager"}'),
  (2, 'emInstance', 'linkis-cg-engineconnmanager-vm-two:9102'),
  (3, 'engineInstance', 'linkis-cg-engineconn-vm-one:40000'),
  (4, 'combined_userCreator_engineType', 'alice-IDE,spark-3.2.1'),
  (5, 'combined_userCreator_engineType', '*-*,*-*'),
  (6, 'combined_userCreator_engineType', '*-LINKISCLI,shell-1'),
  (7, 'emInstance', 'linkis-cg-engineconnmanager-vm-bad:9102'),
  (8, 'combined_userCreator_engineType', 'nonsense');
INSERT INTO linkis_cg_manager_label_resource VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 7, 4);
INSERT INTO linkis_cg_manager_linkis_resources VALUES
  (1, '{"memory":107374182400,"cores":100,"instances":50,"instance":50}', 'LoadInstance'),
  (2, '{"memory":1048576,"cores":0,"instances":5}', 'LoadInstance'),
  (3, '{"memory":1,"cores":1,"instances":1}', 'LoadInstance'),
  (4, 'not json', 'LoadInstance');
INSERT INTO linkis_cg_manager_service_instance VALUES
  (1, 'vm-one:9102', 'linkis-cg-engineconnmanager', NULL, NULL, NULL),
  (2, 'vm-one:40000', 'linkis-cg-engineconn', 'process', '4711', 'f9a3'),
  (3, 'vm-one:40001', 'linkis-cg-engineconn', 'process', NULL, 'f9a4');
INSERT INTO linkis_ps_configuration_config_key VALUES
  (1, 'wds.linkis.rm.client.memory.max', '20G'), (2, 'wds.linkis.rm.client.core.max', '10'), (3, 'wds.linkis.rm.instance', '10'),
  (4, 'wds.linkis.rm.yarnqueue', 'default'), (5, 'wds.linkis.rm.yarnqueue.memory.max', '300G'), (6, 'wds.linkis.rm.yarnqueue.instance.max', '30'),
  (7, 'spark.executor.memory', '3g');
INSERT INTO linkis_ps_configuration_config_value VALUES
  (1, 1, '8G', 4), (2, 2, 'many', 4), (3, 3, '', 5), (4, 4, 'etl', 4), (5, 5, '64G', 6), (6, 6, '30', 6), (7, 7, '4g', 4), (8, 3, '2', 8);
INSERT INTO linkis_cg_tenant_label_config VALUES (1, 'bob', 'IDE', 'finance', 'Y'), (2, 'eve', 'IDE', 'old', 'N');
INSERT INTO linkis_cg_rm_external_resource_provider VALUES
  (1, 'Yarn', 'prod', '{"rmWebAddress":"http://rm-1:8088","authorEnable":true,"user":"hadoop","pwd":"yarn-secret"}'),
  (2, 'Yarn', 'odd', 'no json with yarn-secret');
INSERT INTO linkis_ps_configuration_across_cluster_rule VALUES
  (1, 'east', 'IDE', 'alice', '{"queueRule":{"crossQueue":"night"},"priorityClusterRule":{"priorityCluster":"bdp"},"targetClusterRule":{"targetCPUThreshold":"20","targetMemoryThreshold":"40","targetCPUPercentageThreshold":"0.8","targetMemoryPercentageThreshold":"0.8"},"originClusterRule":{},"timeRule":{"startTime":"8","endTime":"20"}}', 'Y'),
  (2, 'east', 'IDE', 'carol', '{"priorityClusterRule":{"priorityCluster":"bdap"},"originClusterRule":{"originCPUPercentageThreshold":"80","originMemoryPercentageThreshold":"80"}}', 'Y'),
  (3, 'west', 'IDE', 'eve', 'ended', 'N');
